"""Sinks of jobs: streams, tables of Postgres, and tables of the lake. Each is a struct of the keys in the file."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from everbrook.spark.jobs.model import Count, Job, Text, options_with_server, server_options, spelling_of
from everbrook.spark.jobs.resources import Endpoint, Resource, database_url, server_url
from everbrook.spark.jobs.sources import TableSource
from everbrook.spark.options import parse_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RETENTION = re.compile(r"(?P<count>\d+)\s*(?P<unit>h|d)")
_HOURS = {"h": 1, "d": 24}


class StreamSink(Struct, frozen=True):
    """Streams that are written: one for all rows, or the one that the column `stream` of each row names."""

    MARKS: ClassVar[tuple[str, ...]] = ("stream", "by_column", "bucket")
    RENAMED: ClassVar[dict[str, str]] = {}

    stream: Text | None = None
    by_column: Literal["stream"] | None = None
    bucket: Text | None = None
    url: Text | None = None
    auto_create: bool = True
    content_type: Text | None = None
    message: Literal["value", "object"] | None = None
    ttl_secs: Count | None = None
    order_by: list[Text] | None = None
    max_append_bytes: Count | None = None
    close_on_finish: bool | None = None

    def check(self, job: Job) -> None:
        if (self.stream is None) == (self.by_column is None):
            raise ValueError('give stream, or by_column = "stream" where rows say themselves which stream they go to')
        if self.close_on_finish and not job.trigger.ends:
            raise ValueError('close_on_finish needs a job that ends: trigger = "available-now"')
        parse_sink(self._options(job), spelling_of(StreamSink))

    def describe(self) -> str:
        return "streams by column stream" if self.stream is None else f"stream {self.stream}"

    def claims(self, job: Job) -> frozenset[Resource]:
        if self.stream is None:
            return frozenset()
        return frozenset({Resource.stream(self.stream, self._url(job), self.bucket)})

    def writes(self, job: Job) -> frozenset[Resource]:
        return self.claims(job)

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        return (Endpoint(self._url(job)),)

    def write(self, df: "DataFrame", job: Job, on_dead_letters: Callable[[int], None]) -> Any:
        from everbrook.spark import write_stream

        options: dict[str, Any] = self._options(job)
        return write_stream(df, str(job.checkpoint), trigger=job.trigger.of_spark, query_name=job.name, **options)

    def reset(self, job: Job) -> list[str]:
        """Drop nothing: a new checkpoint is a new query, which the server does not know."""
        return []

    def _url(self, job: Job) -> str:
        return server_url(self.url or job.server.url)

    def _options(self, job: Job) -> dict[str, str]:
        options = options_with_server(self, job, self.url)
        options.pop("byColumn", None)
        return options


class TableSink(Struct, frozen=True):
    """A table of Postgres that gets a row for each message, or the current row of each key."""

    MARKS: ClassVar[tuple[str, ...]] = ("table",)

    table: Text
    url: Text | None = None
    columns: dict[str, Text] | None = None
    mode: Literal["append", "state"] = "append"
    entity_type: Text | None = None
    dead_letters: Text = "table"
    create_table: bool = False

    def check(self, job: Job) -> None:
        """Refuse options that contradict each other, and invalid paths."""
        from everbrook.spark.postgres.table_sink import parse_options

        if isinstance(job.source, TableSource) and job.sql is None:
            raise ValueError("changes of tables go to a stream first: a second job writes them to a table from there")
        if self.columns is not None and not self.columns:
            raise ValueError("columns must name at least one column")
        parse_options(server=server_options(job.server), **self._options(job))

    def describe(self) -> str:
        return f"table {self.table}" if self.mode == "append" else f"table {self.table} ({self.mode})"

    def claims(self, job: Job) -> frozenset[Resource]:
        return frozenset({Resource.table(self.table, self._url(job))})

    def writes(self, job: Job) -> frozenset[Resource]:
        """Return the table, and the stream of dead letters if there is one."""
        return self.claims(job) | _letters_of(self.dead_letters, job)

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        return (Endpoint(self._url(job)),)

    def write(self, df: "DataFrame", job: Job, on_dead_letters: Callable[[int], None]) -> Any:
        from everbrook.spark import write_postgres

        return write_postgres(
            df,
            str(job.checkpoint),
            **self._options(job),
            server=server_options(job.server),
            trigger=job.trigger.of_spark,
            query_name=job.name,
            on_dead_letters=on_dead_letters,
        )

    def reset(self, job: Job) -> list[str]:
        """Drop the positions of the query."""
        query = query_id(job.checkpoint)
        if query is None:
            return []
        from everbrook.spark.postgres.positions import forget

        forget(self._url(job), query)
        return [f"positions of {query}"]

    def _url(self, job: Job) -> str:
        return database_url(self.url or job.postgres.url)

    def _options(self, job: Job) -> dict[str, Any]:
        return msgspec.structs.asdict(self) | {"url": self._url(job)}


class LakeSink(Struct, frozen=True):
    """A Delta table, which gets a row for each message."""

    MARKS: ClassVar[tuple[str, ...]] = ("lake",)

    lake: Text
    format: Text = "delta"
    schema: Text = "inferred"
    evolve: bool | None = None
    group: Count | Text = 1
    max_columns: Count = 1000
    compact_after: Annotated[int, Meta(ge=0)] = 100
    retention: Text = "7d"
    dead_letters: Text = "table"

    def check(self, job: Job) -> None:
        from everbrook.spark.lake.lake_table import LakeOptions, check_format, check_options
        from everbrook.spark.sinks.dead_letters import parse_dead_letters

        check_format(self.format)
        check_options(
            LakeOptions(self.lake, self.schema, self.evolve, self.group, retention_hours=self.retention_hours())
        )
        parse_dead_letters(self.dead_letters, server_options(job.server))

    def describe(self) -> str:
        return f"{self.format} {self.lake}"

    def claims(self, job: Job) -> frozenset[Resource]:
        return frozenset({Resource.table(str(self.folder(job)))})

    def writes(self, job: Job) -> frozenset[Resource]:
        """Return the table, and the stream of dead letters if there is one."""
        return self.claims(job) | _letters_of(self.dead_letters, job)

    def endpoints(self, job: Job) -> tuple[Endpoint, ...]:
        """Need nothing: the folder is created."""
        return ()

    def write(self, df: "DataFrame", job: Job, on_dead_letters: Callable[[int], None]) -> Any:
        from everbrook.spark import write_lake

        options = msgspec.structs.asdict(self)
        del options["lake"], options["retention"]
        return write_lake(
            df,
            str(job.checkpoint),
            path=str(self.folder(job)),
            retention_hours=self.retention_hours(),
            **options,
            server=server_options(job.server),
            trigger=job.trigger.of_spark,
            query_name=job.name,
            on_dead_letters=on_dead_letters,
        )

    def reset(self, job: Job) -> list[str]:
        """Drop nothing: a new checkpoint is a new query, which the table does not know."""
        return []

    def folder(self, job: Job) -> Path:
        return job.path_of(self.lake)

    def retention_hours(self) -> int:
        """Return for how long files are kept that the table does not need any more."""
        found = _RETENTION.fullmatch(self.retention.strip())
        if found is None:
            raise ValueError(f'retention must be hours or days such as "12h" or "7d", got {self.retention!r}')
        return int(found["count"]) * _HOURS[found["unit"]]


def _letters_of(dead_letters: str, job: Job) -> frozenset[Resource]:
    """Return the stream that dead letters are written to, if it is a stream."""
    kind, _, name = dead_letters.partition(":")
    return frozenset({Resource.stream(name, server_url(job.server.url))} if kind == "stream" else ())


def query_id(checkpoint: Path) -> str | None:
    """Return the id of the query whose checkpoint it is, by which a database and a server know it."""
    try:
        found: str | None = msgspec.json.decode((checkpoint / "metadata").read_bytes(), type=dict[str, str]).get("id")
    except (OSError, msgspec.MsgspecError):
        return None
    return found
