"""Plans: which streams a batch folds, and up to where. Spark logs them before the batch runs.

    {"version": 1, "turn": 7, "plans": {"sessions/12": "4096@mi0a2k3j#6a1c000000000007"}}

A batch has the positions of its own streams alone, however many others there are: a fold continues from the snapshot of
its stream. The turn distinguishes two batches that fold the same streams.

Rows are made with Arrow's JSON reader: `pyarrow.array` would load pandas first, which takes about a second in every new
worker.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json
from msgspec import Struct, structs
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from everbrook.spark.folds.fold_options import log_bytes_of, start_of
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import BEGINNING, InvalidPositions, Position, format_position, parse_position

VERSION = 1
PARTITION_BYTES = 4 * 1024 * 1024
PARTITION_STREAMS = 100
SMALL_BYTES = 16 * 1024 * 1024
SMALL_STREAMS = 500

Batch = dict[str, Any]

SCHEMA = StructType(
    [
        StructField("stream", StringType()),
        StructField("offset", StringType()),
        StructField("start", StringType()),
        StructField("snapshot_offset", StringType()),
        StructField("content_type", StringType()),
        StructField("created_at_ms", LongType()),
        StructField("log_bytes", LongType()),
        StructField("gone", BooleanType()),
        StructField("incarnation", StringType()),
    ]
)
_ARROW = to_arrow_schema(SCHEMA)


def record_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return at least one row as a record batch."""
    document = b"\n".join(map(msgspec.json.encode, rows))
    table = pyarrow.json.read_json(
        pa.BufferReader(document),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(document) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    (batch,) = table.combine_chunks().to_batches()
    return batch


class Plan(Struct, frozen=True):
    """A stream that is folded up to an offset.

    The other fields describe it at the time of the plan, and may be outdated.
    """

    stream: str
    offset: str
    start: str = BEGINNING
    snapshot_offset: str | None = None
    content_type: str = ""
    created_at_ms: int | None = None
    log_bytes: int = 0
    gone: bool = False
    """Whether it was deleted, or created anew, since it was planned."""
    incarnation: str = ""

    @property
    def done(self) -> bool:
        """Whether a snapshot covers all of it already."""
        return self.snapshot_offset is not None and self.snapshot_offset >= self.offset


def format_batch(turn: int, streams: Mapping[str, Found]) -> Batch:
    """Format a batch that folds these streams up to their tails."""
    plans = {name: format_position(found.end.at(found.tail)) for name, found in streams.items()}
    return {"version": VERSION, "turn": turn, "plans": dict(sorted(plans.items()))}


def turn_of(batch: Batch) -> int:
    """Return the number of a batch, 0 before the first."""
    if batch and batch.get("version") != VERSION:
        raise InvalidPositions(f"the checkpoint is of version {batch.get('version')!r}: folds know {VERSION}")
    return int(batch.get("turn", 0))


def positions_of(batch: Batch) -> dict[str, Position]:
    """Return the offset up to which each stream of a batch is folded."""
    turn_of(batch)
    return {name: parse_position(text) for name, text in batch.get("plans", {}).items()}


def plans_of(batch: Batch, streams: Mapping[str, Found]) -> list[Plan]:
    """Plan a batch, with the current state of its streams."""
    return [_plan(name, position, streams.get(name)) for name, position in positions_of(batch).items()]


def _plan(name: str, position: Position, found: Found | None) -> Plan:
    if found is None or position.differs(found.end):
        created_at_ms, incarnation = position.created_at_ms, position.incarnation
        return Plan(name, position.offset, created_at_ms=created_at_ms, gone=True, incarnation=incarnation)
    return Plan(
        name,
        position.offset,
        start_of(found),
        found.snapshot,
        found.content_type,
        found.created_at_ms,
        log_bytes_of(found),
        incarnation=found.incarnation,
    )


def small(plans: Sequence[Plan]) -> bool:
    """Return whether one task folds a batch in less time than several take to start."""
    return len(plans) <= SMALL_STREAMS and sum(plan.log_bytes for plan in plans) <= SMALL_BYTES


def parted(plans: Sequence[Plan], max_partitions: int) -> list[list[Plan]]:
    """Divide plans among tasks of about the same size: the largest plan first, to the task that has least."""
    if small(plans):
        return [list(plans)] if plans else []
    whole = sum(plan.log_bytes for plan in plans)
    count = max(1, min(max_partitions, max(-(-whole // PARTITION_BYTES), -(-len(plans) // PARTITION_STREAMS))))
    groups: list[list[Plan]] = [[] for _ in range(count)]
    loads = [0] * count
    for plan in sorted(plans, key=lambda plan: (-plan.log_bytes, plan.stream)):
        least = loads.index(min(loads))
        groups[least].append(plan)
        loads[least] += plan.log_bytes + 1
    return [group for group in groups if group]


def batch_of(plans: Sequence[Plan]) -> pa.RecordBatch:
    """Return plans as rows."""
    return record_batch([structs.asdict(plan) for plan in plans], _ARROW)


def parse_plans(batches: Iterable[pa.RecordBatch]) -> list[Plan]:
    """Read plans from rows."""
    return [Plan(**row) for batch in batches for row in batch.select(_ARROW.names).to_pylist()]
