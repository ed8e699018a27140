"""Folds as sources of jobs: streams are folded, and what became of each is a row."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError
from everbrook.spark.given import InvalidOption
from everbrook.spark.jobs.job import Count, Job, Lag, LagOf, Text
from everbrook.spark.jobs.places import Place, server_url
from everbrook.spark.jobs.streams import StreamSource, in_keys, options_of, stream_name
from everbrook.spark.jobs.tables import EXPECTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everbrook.spark.catalogue import Catalogue
    from everbrook.spark.folds.options import FoldOptions

OBSERVED = "everbrook_folds"
Ratio = Annotated[float, Meta(gt=0, extra={EXPECTED: "a number above 0"})]
_OF_STREAMS = ("stream", "streams", "prefix", "pattern", "bucket", "url")


class FoldSource(Struct, frozen=True):
    """Streams that are folded: `fold` is true for changes, or the name of a function for anything else."""

    MARKS: ClassVar[tuple[str, ...]] = ("fold",)

    fold: bool | Text
    stream: Text | None = None
    streams: list[Text] | None = None
    prefix: Text | None = None
    pattern: Text | None = None
    bucket: Text | None = None
    url: Text | None = None
    when_log_is: Ratio | None = None
    every: Text | None = None
    min_log_bytes: Count | None = None
    history: Literal["keep", "drop"] | None = None
    invalid: Literal["refuse", "skip"] | None = None
    dead_letters: Text | None = None
    max_streams_per_trigger: Count | None = None
    max_partitions: Count | None = None

    def check(self, job: Job) -> None:
        """Refuse options that contradict each other."""
        if self.fold is False:
            raise ValueError('fold must be true, or name a function such as "my_module:fold"; without it, leave it out')
        try:
            self._parsed(job)
        except InvalidOption as error:
            raise ValueError(in_keys(str(error), self).replace("function must", "fold must")) from None

    def describe(self) -> str:
        """Say which streams."""
        return f"folds of {self._streams.describe()}"

    def claims(self, job: Job) -> frozenset[str]:
        """Name the stream of dead letters."""
        if self.dead_letters is None:
            return frozenset()
        return frozenset({stream_name(server_url(self.url or job.server.url), self.bucket, self.dead_letters)})

    def reads(self, job: Job, claim: str) -> bool:
        """Tell whether a stream is folded."""
        return self._streams.reads(job, claim)

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give the server."""
        return self._streams.places(job)

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        """Begin to fold. Where no SQL chooses among the columns of reports, they are messages."""
        from everbrook.spark.folds.queries import fold
        from everbrook.spark.folds.reports import as_messages
        from everbrook.spark.folds.source import FORMAT

        plans = spark.readStream.format(FORMAT).options(**self._options(job)).load()
        reports = observed(fold(plans, self._parsed(job)))
        return as_messages(reports) if job.sql is None else reports

    def reset(self, job: Job) -> list[str]:
        """Forget nothing: where folds go on is in the snapshots, and stays."""
        return []

    def lag_finder(self, job: Job) -> LagOf:
        """Add up what no snapshot stands for."""
        return FoldLag(self._parsed(job)).find

    @property
    def _streams(self) -> StreamSource:
        return StreamSource(**{name: getattr(self, name) for name in _OF_STREAMS})

    def _parsed(self, job: Job) -> "FoldOptions":
        from everbrook.spark.folds.options import parse_folds

        return parse_folds(self._options(job))

    def _options(self, job: Job) -> dict[str, str]:
        function = {"function": self.fold} if isinstance(self.fold, str) else {}
        return {name: text for name, text in options_of(job, self, self.url).items() if name != "fold"} | function


def observed(reports: "DataFrame") -> "DataFrame":
    """Have Spark count reports on their way, by what became of the streams."""
    from pyspark.sql.functions import (
        coalesce,
        col,
        count_if,
        lit,
        sum as sum_of,
    )

    from everbrook.spark.folds.reports import OUTCOMES, PUBLISHED

    published = reports.outcome == PUBLISHED
    counts = [count_if(col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES]
    sums = [
        coalesce(sum_of(col(name) * published.cast("long")), lit(0)).alias(name)
        for name in ("log_bytes", "state_bytes", "invalid")
    ]
    return reports.observe(OBSERVED, *counts, *sums)


def counts_of(progress: Any) -> dict[str, Any]:
    """Give what was counted in a batch, as a board adds it up."""
    found = (progress.observedMetrics or {}).get(OBSERVED)
    if found is None:
        return {}
    counted = found.asDict()
    folded, snapshots, invalid = (counted.pop(name) for name in ("log_bytes", "state_bytes", "invalid"))
    return {"folds": counted, "folded_bytes": folded, "snapshot_bytes": snapshots, "dead_letters": invalid}


class FoldLag:
    """Tells how much of all streams no snapshot stands for."""

    def __init__(self, options: "FoldOptions") -> None:
        self._options = options
        self._catalogue: Catalogue | None = None

    def find(self, _progress: Any) -> Lag:
        """Look at the streams. Nothing is said if the server can't be asked now."""
        from everbrook.spark.folds.listing import open_streams
        from everbrook.spark.folds.policy import log_bytes_of

        try:
            if self._catalogue is None:
                self._catalogue = open_streams(self._options)
            else:
                self._catalogue.refresh()
        except (ProtocolError, ClientError):
            return Lag()
        return Lag(sum(log_bytes_of(found) for found in self._catalogue.streams.values()))
