"""Sources of jobs: streams, folds of streams, changes of Postgres, and tables of the lake.

Each is a struct of the keys that stand in the file. They become options of Spark by one rule (`options_of`), and the
parser of these options checks them; `spelling_of` gives it the names of the keys for its messages.
"""

import re
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from everbrook.spark.jobs.lag import FoldLag, Lag, LagOf, SlotLag, StreamLag
from everbrook.spark.jobs.model import Count, Job, Text, options_of, options_with_server, spelling_of
from everbrook.spark.jobs.resources import Endpoint, Resource, database_url, server_url
from everbrook.spark.jobs.toml_values import EXPECTED
from everbrook.spark.options import AUTO, Selection, parse_source

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from everbrook.spark.folds.fold_options import FoldOptions

STREAMS, CHANGES, LAKE = "everbrook", "everbrook_postgres", "everbrook_lake"
"""Formats of Spark."""
Ratio = Annotated[float, Meta(gt=0, extra={EXPECTED: "a number above 0"})]
_SELECTION = ("stream", "streams", "prefix", "pattern", "bucket", "url")
_LONGEST_NAME = 63


class StreamSource(Struct, frozen=True):
    """Streams that are read: one, several, or all that match."""

    MARKS: ClassVar[tuple[str, ...]] = ("stream", "streams", "prefix", "pattern", "bucket")
    RENAMED: ClassVar[dict[str, str]] = {
        "start": "startingOffsets",
        "prefix": "streamPrefix",
        "pattern": "streamPattern",
    }

    stream: Text | None = None
    streams: list[Text] | None = None
    prefix: Text | None = None
    pattern: Text | None = None
    bucket: Text | None = None
    url: Text | None = None
    start: Text | dict[str, str | int] = "earliest"
    schema: Text | None = None
    envelope: Literal["raw", "change"] | None = None
    value_type: Literal["string", "binary"] | None = None
    mode: Literal["PERMISSIVE", "FAILFAST"] | None = None
    max_rows_per_trigger: Count | None = None
    max_bytes_per_trigger: Count | None = None
    min_partitions: Count | None = None
    max_partitions: Count | None = None
    fail_on_data_loss: bool | None = None

    def check(self, job: Job) -> None:
        parse_source(self._options(job), spelling_of(StreamSource))

    def describe(self) -> str:
        if self.stream is not None:
            return f"stream {self.stream}"
        if self.streams is not None:
            return f"streams {', '.join(self.streams)}"
        chosen = f"streams {self.prefix}*" if self.prefix else f"streams {self.pattern or '*'}"
        return f"{chosen} of {self.bucket}" if self.bucket else chosen

    def claims(self, job: Job) -> frozenset[Resource]:
        """Claim nothing: any number of jobs may read a stream."""
        return frozenset()

    def reads(self, job: Job, resource: Resource) -> bool:
        if not resource.is_stream_at(server_url(self.url or job.server.url), self.bucket):
            return False
        named = (each.strip("/") for each in (*(self.streams or ()), self.stream) if each)
        pattern = None if self.pattern is None else self.pattern.strip("/")
        return resource.name in Selection(tuple(named), (self.prefix or "").lstrip("/"), pattern)

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        return (Endpoint(server_url(self.url or job.server.url)),)

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        reader = spark.readStream.format(STREAMS).options(**self._options(job))
        return (reader if self.schema is None else reader.schema(self.schema)).load()

    def reset(self, job: Job) -> list[str]:
        """Drop nothing: the checkpoint says how far streams were read."""
        return []

    def lag_finder(self, job: Job) -> LagOf:
        """Add up what was not read yet of each stream."""
        return StreamLag(parse_source(self._options(job)).server, self.bucket).find

    def _options(self, job: Job) -> dict[str, str]:
        limit = {} if self.max_rows_per_trigger or self.max_bytes_per_trigger else {"maxBytesPerTrigger": AUTO}
        options = options_with_server(self, job, self.url)
        options.pop("schema", None)
        return options | limit


class FoldSource(Struct, frozen=True):
    """Streams that are folded: `fold` is true for changes, or the name of a function for anything else."""

    MARKS: ClassVar[tuple[str, ...]] = ("fold",)
    RENAMED: ClassVar[dict[str, str]] = {"fold": "function", "prefix": "streamPrefix", "pattern": "streamPattern"}

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
        if self.fold is False:
            raise ValueError('fold must be true, or name a function such as "my_module:fold"; without it, leave it out')
        self._parsed(job)

    def describe(self) -> str:
        return f"folds of {self._streams.describe()}"

    def claims(self, job: Job) -> frozenset[Resource]:
        """Claim the stream of dead letters."""
        if self.dead_letters is None:
            return frozenset()
        return frozenset({Resource.stream(self.dead_letters, server_url(self.url or job.server.url), self.bucket)})

    def reads(self, job: Job, resource: Resource) -> bool:
        return self._streams.reads(job, resource)

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        return self._streams.endpoints(job)

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        """Begin to fold. Where no SQL chooses among the columns of reports, they are messages."""
        from everbrook.spark.folds.due_streams import FORMAT
        from everbrook.spark.folds.fold_query import fold
        from everbrook.spark.folds.report import as_messages, observed

        plans = spark.readStream.format(FORMAT).options(**self._options(job)).load()
        reports = observed(fold(plans, self._parsed(job)))
        return as_messages(reports) if job.sql is None else reports

    def reset(self, job: Job) -> list[str]:
        """Drop nothing: a fold continues from the snapshots, which stay."""
        return []

    def lag_finder(self, job: Job) -> LagOf:
        """Add up what no snapshot covers."""
        return FoldLag(self._parsed(job)).find

    @property
    def _streams(self) -> StreamSource:
        return StreamSource(**{name: getattr(self, name) for name in _SELECTION})

    def _parsed(self, job: Job) -> "FoldOptions":
        from everbrook.spark.folds.fold_options import parse_folds

        return parse_folds(self._options(job), spelling_of(FoldSource))

    def _options(self, job: Job) -> dict[str, str]:
        options = options_with_server(self, job, self.url)
        if self.fold is True:
            del options["function"]
        return options


class TableSource(Struct, frozen=True):
    """Changes of tables of Postgres, which begin with a copy of their rows."""

    MARKS: ClassVar[tuple[str, ...]] = ("tables",)
    RENAMED: ClassVar[dict[str, str]] = {}

    tables: list[Text]
    url: Text | None = None
    slot: Text | None = None
    publication: Text | None = None
    stream_prefix: Text | None = None
    stream_column: Text | None = None
    key_columns: Text | None = None
    initial_copy: bool | None = None
    replica_identity: Literal["full", "keep"] | None = None
    on_truncate: Text | None = None
    old_values: bool | None = None
    max_rows_per_trigger: Count | None = None
    max_bytes_per_trigger: Count | None = None
    copy_connections: Count | None = None

    def check(self, job: Job) -> None:
        if not self.tables:
            raise ValueError("tables must name at least one")
        from everbrook.spark.postgres.capture_options import parse_capture

        parse_capture(self._options(job), spelling_of(TableSource))

    def describe(self) -> str:
        return f"{'table' if len(self.tables) == 1 else 'tables'} {', '.join(self.tables)}"

    def claims(self, job: Job) -> frozenset[Resource]:
        """Claim the slot."""
        return frozenset({Resource.slot(self.slot_of(job), self._url(job))})

    def reads(self, job: Job, resource: Resource) -> bool:
        return resource in {Resource.table(table, self._url(job)) for table in self.tables}

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        return (Endpoint(self._url(job)),)

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        return spark.readStream.format(CHANGES).options(**self._options(job)).load()

    def reset(self, job: Job) -> list[str]:
        """Drop the slot. Drop the publication if it has the name of the slot: one that was named here is the user's."""
        from everbrook.spark.capture import drop, forget

        slot, own = self.slot_of(job), self.publication is None
        drop(self._url(job), slot, keep_publication=not own)
        forget(_copies(job))
        return [f"slot {slot}", *[f"publication {slot}"] * own]

    def lag_finder(self, job: Job) -> LagOf:
        """Ask Postgres how much of its log the slot has not confirmed."""
        return SlotLag(self._url(job), self.slot_of(job)).find

    def slot_of(self, job: Job) -> str:
        return self.slot or f"everbrook_{re.sub(r'[^a-z0-9_]', '_', job.name.lower())}"[:_LONGEST_NAME]

    def _url(self, job: Job) -> str:
        return database_url(self.url or job.postgres.url)

    def _options(self, job: Job) -> dict[str, str]:
        slot = self.slot_of(job)
        return options_of(
            self,
            stream=getattr(job.sink, "stream", None),
            url=self._url(job),
            slot=slot,
            publication=self.publication or slot,
            copy_location=str(_copies(job)),
        )


def _copies(job: Job) -> "Path":
    return job.checkpoint / "copy"


class LakeSource(Struct, frozen=True):
    """A table of the lake that is copied back into streams, as it is when the job begins.

    `stream_column` and `value_column` are not supported any more: they are refused with advice what to do instead.
    """

    MARKS: ClassVar[tuple[str, ...]] = ("lake",)
    RENAMED: ClassVar[dict[str, str]] = {"lake": "path"}

    lake: Text
    version: Annotated[int, Meta(ge=0)] | None = None
    stream_column: Text | None = None
    value_column: Text | None = None
    order_by: list[Text] | None = None
    batch_bytes: Count | None = None
    incarnations: Text | None = None

    def check(self, job: Job) -> None:
        """Refuse options that contradict each other, and a job that would wait for more rows."""
        from everbrook.spark.lake.replay import parse_replay

        if not job.trigger.ends:
            raise ValueError('a table ends, and so does its job: set trigger = "available-now"')
        parse_replay(self._options(job), spelling_of(LakeSource))

    def describe(self) -> str:
        return f"table {self.lake}" if self.version is None else f"table {self.lake} (version {self.version})"

    def claims(self, job: Job) -> frozenset[Resource]:
        """Claim nothing: any number of jobs may read a table."""
        return frozenset()

    def reads(self, job: Job, resource: Resource) -> bool:
        return resource == Resource.table(str(job.path_of(self.lake)))

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        """Need nothing: a folder exists, or it is an error."""
        return ()

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        return spark.readStream.format(LAKE).options(**self._options(job)).load()

    def reset(self, job: Job) -> list[str]:
        """Drop nothing: the checkpoint says how far the table was read."""
        return []

    def lag_finder(self, job: Job) -> LagOf:
        """Return how many bytes of the table were not read yet."""
        from everbrook.spark.lake.replay import bytes_left

        return lambda progress: Lag(bytes_left(progress))

    def _options(self, job: Job) -> dict[str, str]:
        return options_of(self, lake=str(job.path_of(self.lake)))
