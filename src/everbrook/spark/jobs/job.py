"""What a file of jobs says, once it is read and checked; and what a kind of source or sink has to offer to take part.

A kind is a struct of the keys that it takes. It is chosen by those of its `MARKS` that stand in the table of a source
or a sink, so that a new kind is a class in the list of `kinds` and nothing else.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

from msgspec import Meta, Struct

from everbrook.spark.jobs.tables import EXPECTED
from everbrook.spark.jobs.triggers import Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everbrook.spark.jobs.places import Place


class Lag(Struct, frozen=True):
    """How far a job is behind, and what Postgres keeps on disk because of it, where that is known."""

    lag_bytes: int | None = None
    slot_bytes: int | None = None


LagOf = Callable[[Any], Lag]
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Address = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\s]*):([0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$",
        extra={EXPECTED: 'HOST:PORT such as "127.0.0.1:9464"'},
    ),
]

Memory = Annotated[
    str, Meta(pattern=r"^[1-9][0-9]*[kmgtKMGT][bB]?$", extra={EXPECTED: 'a size such as "512m" or "2g"'})
]

DEFAULT_PROGRESS = "pipeline-progress"


class PipelineKeys(Struct, frozen=True):
    """What holds for all jobs: the section [pipeline]."""

    checkpoints: Text = "checkpoints"
    progress: str = DEFAULT_PROGRESS
    metrics: Address | None = None
    master: Text = "local[2]"
    memory: Memory = "1g"
    spark: dict[str, str] = {}


class ServerKeys(Struct, frozen=True):
    """Where streams are, unless a source or a sink says otherwise: the section [server]."""

    url: Text | None = None
    token: Text | None = None
    token_file: Text | None = None
    ca_file: Text | None = None
    cert_file: Text | None = None
    key_file: Text | None = None
    insecure: bool = False


class PostgresKeys(Struct, frozen=True):
    """Where tables are, unless a source or a sink says otherwise: the section [postgres]."""

    url: Text | None = None


class JobKeys(Struct, frozen=True):
    """A job as it stands in the file."""

    source: dict[str, Any]
    sink: dict[str, Any]
    sql: Text | None = None
    trigger: Text = "continuous"
    checkpoint: Text | None = None
    max_restarts: Annotated[int, Meta(ge=0)] | None = None


class Source(Protocol):
    """A kind of source."""

    MARKS: ClassVar[tuple[str, ...]]

    def check(self, job: "Job") -> None:
        """Refuse what makes no sense, with a ValueError. Nothing is connected to."""

    def describe(self) -> str:
        """Say what it is, in a few words."""

    def claims(self, job: "Job") -> frozenset[str]:
        """Name what no other job may use at the same time."""

    def reads(self, job: "Job", claim: str) -> bool:
        """Tell whether it reads what a sink writes, as `Sink.writes` names it."""

    def places(self, job: "Job") -> tuple["Place", ...]:
        """Give what has to answer before it can begin."""

    def read(self, spark: "SparkSession", job: "Job") -> "DataFrame":
        """Begin to read."""

    def reset(self, job: "Job") -> list[str]:
        """Forget everything that is kept outside the checkpoint, and say what that was."""

    def lag_finder(self, job: "Job") -> "LagOf":
        """Make what tells how far a query is behind, by its last progress."""


class Sink(Protocol):
    """A kind of sink."""

    MARKS: ClassVar[tuple[str, ...]]

    def check(self, job: "Job") -> None:
        """Refuse what makes no sense, with a ValueError. Nothing is connected to."""

    def describe(self) -> str:
        """Say what it is, in a few words."""

    def claims(self, job: "Job") -> frozenset[str]:
        """Name what is written, which no other job may write."""

    def writes(self, job: "Job") -> frozenset[str]:
        """Name all that is written, also what several jobs may write."""

    def places(self, job: "Job") -> tuple["Place", ...]:
        """Give what has to answer before it can begin."""

    def write(self, df: "DataFrame", job: "Job", on_dead_letters: Callable[[int], None]) -> Any:
        """Begin to write, and give the query."""

    def reset(self, job: "Job") -> list[str]:
        """Forget everything that is kept outside the checkpoint, and say what that was."""


class Job(Struct, frozen=True):
    """A job: what is read, what becomes of it, where it goes, and when."""

    name: str
    source: Source
    sink: Sink
    trigger: Trigger
    checkpoint: Path
    server: ServerKeys
    postgres: PostgresKeys
    sql: str | None = None
    max_restarts: int | None = None
    folder: Path = Path()
    """The folder of the file, which paths in it are relative to."""

    def describe(self) -> str:
        """Say what it does."""
        return f"{self.source.describe()} → {self.sink.describe()}"

    def places(self) -> tuple["Place", ...]:
        """Give what has to answer before it can begin, each once."""
        return tuple(dict.fromkeys((*self.source.places(self), *self.sink.places(self))))


class Pipeline(Struct, frozen=True):
    """A file of jobs."""

    file: str
    keys: PipelineKeys
    checkpoints: Path
    server: ServerKeys
    jobs: dict[str, Job]
