"""Tables of the lake as sinks of jobs, and as sources, from which they go back into streams."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from everbrook.spark.given import InvalidOption
from everbrook.spark.jobs.job import Count, Job, Lag, LagOf, Text
from everbrook.spark.jobs.places import Place, server_url
from everbrook.spark.jobs.streams import in_keys, stream_name
from everbrook.spark.options import ServerOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "everbrook_lake"
_RETENTION = re.compile(r"(?P<count>\d+)\s*(?P<unit>h|d)")
_HOURS = {"h": 1, "d": 24}


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
        """Refuse options that contradict each other."""
        from everbrook.spark.lake.dead_letters import parse_dead_letters
        from everbrook.spark.lake.tables import LakeOptions, check_format, check_options

        check_format(self.format)
        check_options(
            LakeOptions(self.lake, self.schema, self.evolve, self.group, retention_hours=self.retention_hours())
        )
        parse_dead_letters(self.dead_letters, ServerOptions(url=server_url(job.server.url)))

    def describe(self) -> str:
        """Say which table."""
        return f"{self.format} {self.lake}"

    def claims(self, job: Job) -> frozenset[str]:
        """Name the table."""
        return frozenset({_name(self.folder(job))})

    def writes(self, job: Job) -> frozenset[str]:
        """Name the table, and the stream of dead letters if there is one."""
        kind, _, letters = self.dead_letters.partition(":")
        return self.claims(job) | (
            {stream_name(server_url(job.server.url), None, letters)} if kind == "stream" else set()
        )

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give nothing: a folder is there, or it is made."""
        return ()

    def write(self, df: "DataFrame", job: Job, on_dead_letters: Callable[[int], None]) -> Any:
        """Begin to write."""
        from everbrook.spark import write_lake

        return write_lake(
            df,
            str(job.checkpoint),
            path=str(self.folder(job)),
            schema=self.schema,
            evolve=self.evolve,
            group=self.group,
            max_columns=self.max_columns,
            compact_after=self.compact_after,
            retention_hours=self.retention_hours(),
            dead_letters=self.dead_letters,
            server=ServerOptions(**(msgspec.structs.asdict(job.server) | {"url": server_url(job.server.url)})),
            trigger=job.trigger.of_spark,
            query_name=job.name,
            on_dead_letters=on_dead_letters,
        )

    def reset(self, job: Job) -> list[str]:
        """Forget nothing: a new checkpoint is a new query, which the table has not heard of."""
        return []

    def folder(self, job: Job) -> Path:
        """Give where the table is: relative to the file of jobs."""
        return folder_of(self.lake, job)

    def retention_hours(self) -> int:
        """Tell for how long files are kept that the table does not need any more."""
        found = _RETENTION.fullmatch(self.retention.strip())
        if found is None:
            raise ValueError(f'retention must be hours or days such as "12h" or "7d", got {self.retention!r}')
        return int(found["count"]) * _HOURS[found["unit"]]


class LakeSource(Struct, frozen=True):
    """A table that goes back into streams, as it is when the job begins.

    `stream_column` and `value_column` are not supported any more: they are refused with advice what to do instead.
    """

    MARKS: ClassVar[tuple[str, ...]] = ("lake",)

    lake: Text
    version: Annotated[int, Meta(ge=0)] | None = None
    stream_column: Text | None = None
    value_column: Text | None = None
    order_by: list[Text] | None = None
    batch_bytes: Count | None = None
    incarnations: Text | None = None

    def check(self, job: Job) -> None:
        """Refuse options that contradict each other, and a job that would wait for more."""
        from everbrook.spark.lake.replays import parse_replay

        if not job.trigger.ends:
            raise ValueError('a table ends, and so does its job: set trigger = "available-now"')
        try:
            parse_replay(self._options(job))
        except InvalidOption as error:
            raise ValueError(in_keys(str(error), self)) from None

    def describe(self) -> str:
        """Say which table."""
        return f"table {self.lake}" if self.version is None else f"table {self.lake} (version {self.version})"

    def claims(self, job: Job) -> frozenset[str]:
        """Name nothing: any number of jobs may read a table."""
        return frozenset()

    def reads(self, job: Job, claim: str) -> bool:
        """Tell whether it is the table that is written."""
        return claim == _name(folder_of(self.lake, job))

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give nothing: a folder is there, or it is an error."""
        return ()

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        """Begin to read."""
        return spark.readStream.format(FORMAT).options(**self._options(job)).load()

    def reset(self, job: Job) -> list[str]:
        """Forget nothing: how far the table was read is in the checkpoint."""
        return []

    def lag_finder(self, job: Job) -> LagOf:
        """Tell how many bytes of the table were not read yet."""
        from everbrook.spark.lake.replays import bytes_left

        return lambda progress: Lag(bytes_left(progress))

    def _options(self, job: Job) -> dict[str, str]:
        given = {
            "path": str(folder_of(self.lake, job)),
            "version": self.version,
            "streamColumn": self.stream_column,
            "valueColumn": self.value_column,
            "orderBy": None if self.order_by is None else ",".join(self.order_by),
            "batchBytes": self.batch_bytes,
            "incarnations": self.incarnations,
        }
        return {name: str(value) for name, value in given.items() if value is not None}


def folder_of(lake: str, job: Job) -> Path:
    """Give where a table is: relative to the file of jobs."""
    return (job.folder / Path(lake.removeprefix("file://")).expanduser()).resolve()


def _name(folder: Path) -> str:
    return f"the table {folder}"
