"""Reports: the result for each stream that was due, as a row and as a change of the State protocol.

The outcome is one of

published   there is a new snapshot
current     a snapshot already covers everything: that of an earlier attempt, or of another writer
overtaken   another writer published a snapshot meanwhile; what comes after it is folded the next time
refused     the stream can't be folded, and is unchanged; `error` says why
gone        the stream was deleted, or created anew
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct, json, structs
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from everbrook.protocol.state_changes import Set, format_state
from everbrook.spark.folds.plan import Plan, record_batch
from everbrook.spark.progress import now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PUBLISHED, CURRENT, OVERTAKEN, REFUSED, GONE = OUTCOMES = ("published", "current", "overtaken", "refused", "gone")
TYPE = "fold"
OBSERVED = "everbrook_folds"
"""The name of the counts in the progress of a query."""
_LONGEST_ERROR = 1000


class Report(Struct, frozen=True):
    """The outcome for a stream. `events` and bytes were read; `invalid` counts the messages that were left out."""

    stream: str
    offset: str
    from_offset: str | None = None
    outcome: str = PUBLISHED
    events: int = 0
    entities: int = 0
    log_bytes: int = 0
    state_bytes: int = 0
    invalid: int = 0
    error: str | None = None
    took_ms: int = 0


_TEXTS = {"stream", "offset", "from_offset", "outcome", "error"}
SCHEMA = StructType(
    [
        *(StructField(name, StringType() if name in _TEXTS else LongType()) for name in Report.__struct_fields__),
        StructField("value", StringType()),
        StructField("time", TimestampType()),
    ]
)
_ARROW = to_arrow_schema(SCHEMA, timezone="UTC")
_OF_SOURCE = ("stream", "offset", "offset AS next_offset", "'application/json' AS content_type", "value", "time")


class NotPublished(Exception):
    """A fold has no snapshot to publish, for the reason in the message."""

    outcome = REFUSED


class Refused(NotPublished):
    """The stream can't be folded."""


class Current(NotPublished):
    """A snapshot covers everything already."""

    outcome = CURRENT


class Overtaken(NotPublished):
    """Another writer has published a snapshot meanwhile."""

    outcome = OVERTAKEN


class Gone(NotPublished):
    """The stream was deleted, or created anew."""

    outcome = GONE


def unpublished(plan: Plan, reason: NotPublished) -> Report:
    """Report that nothing was published."""
    words = " ".join(str(reason).split())[:_LONGEST_ERROR]
    return Report(plan.stream, plan.offset, outcome=reason.outcome, error=words or None)


def batch_of(reports: Sequence[Report]) -> pa.RecordBatch:
    """Return reports as rows."""
    time = now()
    return record_batch([_row(structs.asdict(report), time) for report in reports], _ARROW)


def _row(report: dict[str, Any], time: str) -> dict[str, Any]:
    change = format_state(Set(TYPE, report["stream"], report, timestamp=time))
    return {**report, "value": json.encode(change).decode(), "time": time}


def as_messages(reports: "DataFrame") -> "DataFrame":
    """Return reports with the columns of the source, each as a change, so that sinks take them as messages."""
    return reports.selectExpr(*_OF_SOURCE)


def observed(reports: "DataFrame") -> "DataFrame":
    """Let Spark count reports by their outcomes, in the progress of the query."""
    from pyspark.sql.functions import (
        coalesce,
        col,
        count_if,
        lit,
        sum as sum_of,
    )

    published = reports.outcome == PUBLISHED
    counts = [count_if(col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES]
    sums = [
        coalesce(sum_of(col(name) * published.cast("long")), lit(0)).alias(name)
        for name in ("log_bytes", "state_bytes", "invalid")
    ]
    return reports.observe(OBSERVED, *counts, *sums)


def counts_of(progress: Any) -> dict[str, Any]:
    """Return the counts of a batch, as the board of jobs adds them up."""
    found = (progress.observedMetrics or {}).get(OBSERVED)
    if found is None:
        return {}
    counted = found.asDict()
    folded, snapshots, invalid = (counted.pop(name) for name in ("log_bytes", "state_bytes", "invalid"))
    return {"folds": counted, "folded_bytes": folded, "snapshot_bytes": snapshots, "dead_letters": invalid}
