"""What other writers may have promised of a Delta table, which files that are only added to it could break.

A constraint, a column that may not be null or is computed, and names of columns that are others in the files: whoever
writes such a table has to look at every row. Tables of the lake take any message, so such a table is refused.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable, Schema

from everbrook.spark.lake.errors import TableMismatch

_CONSTRAINT = "delta.constraints."
_MAPPING = "delta.columnMapping.mode"
_COMPUTED = ("delta.invariants", "delta.generationExpression", "delta.identity.start")


def require_plain(folder: Path, table: DeltaTable) -> None:
    """Refuse a table of which more is promised than that its rows have these columns."""
    promise = next(_promises(table.metadata().configuration, table.schema()), None)
    if promise is not None:
        raise TableMismatch(
            f"the table {folder} has {promise}, which messages need not keep to: nothing was written. Remove it, or "
            "give another path"
        )


def _promises(configuration: dict[str, str], schema: Schema) -> Iterator[str]:
    for name, value in configuration.items():
        if name.startswith(_CONSTRAINT):
            yield f"the constraint {name.removeprefix(_CONSTRAINT)!r} ({value})"
        elif name == _MAPPING and value != "none":
            yield f"columns that are called otherwise in its files ({_MAPPING} is {value!r})"
    for field in json.loads(schema.to_json())["fields"]:
        if not field["nullable"]:
            yield f"the column {field['name']!r}, which may not be null"
        elif any(name in field["metadata"] for name in _COMPUTED):
            yield f"the column {field['name']!r}, whose values are computed or checked"
