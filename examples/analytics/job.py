"""The job: three queries, and two streams that they write, each exactly once.

    sessions/*  →  session-facts  →  session-analytics (the minutes)
                                  →  session-analytics (the funnels)

Facts are expensive: they are made once, in order, and other queries can read them too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from everbrook import Client
from everbrook.spark import write_stream
from examples.analytics.facts import SCHEMA, events_of, facts_of
from examples.analytics.measures import funnel_of, minutes_of

SETTINGS = {"spark.sql.session.timeZone": "UTC"}
"""The configuration of the Spark session."""

# A year that is read at once is more than one append. Facts in the order of time do not seem late where it is parted.
_BY_TIME = {"orderBy": "at,session,offset"}
_BY_KEY = {"orderBy": "value"}


class CheckpointMissing(Exception):
    """The facts come from a query whose checkpoint is missing: all of them would be made again."""


class Places(Struct, frozen=True):
    """The streams and folders of the job."""

    checkpoints: Path
    url: str | None = None
    sessions: str = "sessions/*"
    facts: str = "session-facts"
    analytics: str = "session-analytics"

    @property
    def server(self) -> dict[str, str]:
        """The server as an option of Spark, by default the one of the environment."""
        return {} if self.url is None else {"url": self.url}


class Analytics:
    """The queries of one place."""

    def __init__(self, spark: SparkSession, places: Places) -> None:
        self._spark = spark
        self._places = places
        self._prepare()

    def run_once(self) -> None:
        """Count the stored messages, and end."""
        trigger = {"availableNow": True}
        self._facts(trigger).awaitTermination()
        for query in [self._minutes(trigger), self._funnels(trigger)]:
            query.awaitTermination()

    def start(self, every: str = "1 second") -> list[Any]:
        """Start to count new messages, and return the queries."""
        trigger = {"processingTime": every}
        return [self._facts(trigger), self._minutes(trigger), self._funnels(trigger)]

    def _prepare(self) -> None:
        """Create the streams. Facts without their checkpoint are refused, because they would all be made twice."""
        with Client(self._places.url) as client:
            facts = client.stream(self._places.facts)
            facts.create()
            client.stream(self._places.analytics).create()
            if facts.read(last=1).all() and not (self._places.checkpoints / "facts").is_dir():
                raise CheckpointMissing(
                    f"{self._places.facts!r} has facts, and {self._places.checkpoints} has no checkpoint of the query "
                    f"that made them: pass its folder, or delete {self._places.facts!r} and {self._places.analytics!r}"
                )

    def _facts(self, trigger: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a query of Spark, or one that closes streams
        # Sessions expire. Messages that expired before they were read can't be counted, and must not stop the query.
        changes = self._read(streamPattern=self._places.sessions, envelope="change", failOnDataLoss="false").load()
        return self._write(facts_of(events_of(changes)), "facts", self._places.facts, trigger, _BY_TIME)

    def _minutes(self, trigger: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return self._write(minutes_of(self._read_facts()), "minutes", self._places.analytics, trigger, _BY_KEY)

    def _funnels(self, trigger: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return self._write(funnel_of(self._read_facts()), "funnels", self._places.analytics, trigger, _BY_KEY)

    def _read_facts(self) -> DataFrame:
        facts: DataFrame = self._read(stream=self._places.facts).schema(SCHEMA).load()
        return facts

    def _read(self, **options: str) -> Any:  # noqa: ANN401 - a reader of Spark
        chosen = {"startingOffsets": "earliest", **self._places.server, **options}
        return self._spark.readStream.format("everbrook").options(**chosen)

    def _write(
        self, rows: DataFrame, name: str, stream: str, trigger: Mapping[str, Any], options: Mapping[str, str]
    ) -> Any:  # noqa: ANN401
        return write_stream(
            rows,
            str(self._places.checkpoints / name),
            output_mode="append" if name == "facts" else "update",
            trigger=trigger,
            query_name=f"analytics-{name}",
            stream=stream,
            **self._places.server,
            **options,
        )
