"""From the events of all sessions to facts, in Spark: each session is followed by itself, in the order of its stream.

Spark keeps the state of a session between batches, under the number of the batch, so that a batch that is run again
starts from the same state. The state of a session is dropped when it is silent for longer than a visit lasts, by the
clock of the server: appends arrive in the order of that clock, so that no event is late here.
"""

from collections.abc import Iterator

import msgspec
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, expr, from_json
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from examples.analytics.visits import SILENCE_MS, TYPES, Event, Fact, Visit, follow

SCHEMA = (
    "session STRING, offset STRING, kind STRING, at TIMESTAMP, began TIMESTAMP, user STRING, response_ms BIGINT, "
    "steps ARRAY<STRING>"
)
_VALUE = "role STRING, user STRING, status STRING, at STRING"
_FACT = (
    "session STRING, offset STRING, kind STRING, at_ms BIGINT, began_ms BIGINT, user STRING, response_ms BIGINT, "
    "steps ARRAY<STRING>"
)
_EVENT = [*Event.__struct_fields__]
_TOGETHER = "10 minutes"
"""The time by which appends of a batch may precede those of the batch before it. In practice it is milliseconds."""


def events_of(changes: DataFrame) -> DataFrame:
    """Return the relevant events, of changes in either dialect.

    The time of an event is its `at`, or else the time of its append; it is never later than its append, because one
    clock that is a year ahead would make all other events late.
    """
    return (
        changes.where(col("type").isin(*TYPES))
        .withColumn("said", from_json("value", _VALUE))
        .selectExpr(
            *("stream AS session", "offset", "type", "key", "said.role AS role"),
            "operation = 'delete' OR coalesce(said.status = 'offline', false) AS gone",
            "coalesce(said.user, nullif(regexp_extract(key, '^user:(.+)$', 1), '')) AS user",
            "coalesce(time, try_cast(said.at AS TIMESTAMP)) AS arrived",
            "unix_millis(least(time, try_cast(said.at AS TIMESTAMP))) AS at_ms",
        )
        .withColumn("arrived_ms", expr("unix_millis(arrived)"))
        .where("at_ms IS NOT NULL")
    )


def facts_of(events: DataFrame) -> DataFrame:
    """Follow each session."""
    sessions = events.withWatermark("arrived", _TOGETHER).groupBy("session")
    facts = sessions.applyInPandasWithState(
        _follow, _FACT, "visit STRING", "append", GroupStateTimeout.EventTimeTimeout
    )
    times = ("timestamp_millis(at_ms) AS at", "timestamp_millis(began_ms) AS began")
    return facts.selectExpr("session", "offset", "kind", *times, "user", "response_ms", "steps")


def _follow(key: tuple[str], batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        state.remove()
        return
    visit = msgspec.json.decode(state.get[0], type=Visit) if state.exists else None
    rows = pd.concat(batches).sort_values("offset")
    visit, facts = follow(visit, (Event(*row) for row in rows[_EVENT].itertuples(index=False, name=None)))
    state.update((msgspec.json.encode(visit).decode(),))
    state.setTimeoutTimestamp(int(rows["arrived_ms"].max()) + SILENCE_MS)
    told = [(key[0], *msgspec.structs.astuple(fact)) for fact in facts]
    yield pd.DataFrame(told, columns=["session", *Fact.__struct_fields__], dtype=object)
