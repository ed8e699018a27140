"""Rows for Spark: through the JSON reader of Arrow.

`pyarrow.array` would do the same, but loads pandas first, which takes about a second of every new worker.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json


def record_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Give rows as Spark wants them. There is at least one."""
    document = b"\n".join(map(msgspec.json.encode, rows))
    table = pyarrow.json.read_json(
        pa.BufferReader(document),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(document) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    (batch,) = table.combine_chunks().to_batches()
    return batch
