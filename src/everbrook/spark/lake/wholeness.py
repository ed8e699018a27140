"""Whether a value is in its column as a whole: what its type would cut, round or pass over does not fit.

A FLOAT or a DOUBLE has the number that is nearest to one with a fraction, as everywhere; whole numbers must be exact.
"""

import re
from datetime import UTC
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from everbrook.spark.conversion import Misfit

_FINER_THAN_MICROS = re.compile(r"[.,]\d{6}\d*[1-9]")


def require_whole(value: Any, found: Any, type_: pa.DataType) -> None:
    """Refuse a value of which `found`, that fits a type, is only a part. Numbers with a fraction come as decimals."""
    if value is None:
        return
    if pa.types.is_struct(type_):
        _require_known(value, type_)
        for field in type_:
            require_whole(value.get(field.name), found[field.name], field.type)
    elif pa.types.is_list(type_):
        for item, found_item in zip(value, found, strict=True):
            require_whole(item, found_item, type_.value_type)
    elif pa.types.is_map(type_):
        for item, (_, found_item) in zip(value.values(), found, strict=True):
            require_whole(item, found_item, type_.item_type)
    elif not _is_whole(value, found, type_):
        raise Misfit(f"has {value!r:.80}, of which {type_} can hold only a part")


def _require_known(value: dict[str, Any], type_: pa.DataType) -> None:
    known = {field.name for field in type_}
    unknown = next((name for name, item in value.items() if name not in known and item is not None), None)
    if unknown is not None:
        raise Misfit(f"has {unknown!r:.80}, which {type_} has not")


def _is_whole(value: Any, found: Any, type_: pa.DataType) -> bool:
    if pa.types.is_floating(type_):
        return _is_near(value, found, type_)
    if pa.types.is_timestamp(type_):
        found.astimezone(UTC)  # which is beyond all years for the first and the last hours of some zones
        return _FINER_THAN_MICROS.search(value) is None
    if pa.types.is_decimal(type_):
        try:
            return bool(Decimal(value) == found)
        except InvalidOperation:
            return False
    return True


def _is_near(value: Any, found: float, type_: pa.DataType) -> bool:
    with np.errstate(over="ignore"):
        there = float(np.float32(found)) if type_ == pa.float32() else found
    return bool(np.isfinite(there)) and (not isinstance(value, int) or there == value)
