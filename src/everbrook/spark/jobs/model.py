"""Jobs as a file describes them: keys, triggers, errors, and the interfaces of sources and sinks.

A kind of source or sink is a struct of its keys. It is chosen by those of its `MARKS` that are in the table of the
source or the sink, so a new kind is one class in the lists of `load`.

The keys of a source or a sink become options of Spark by one rule, and the parser of the options checks them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

from msgspec import Meta, Struct, json, structs

from everbrook.durations import UNIT_MS, parse_duration_ms
from everbrook.spark.jobs.lag import LagOf
from everbrook.spark.jobs.resources import Endpoint, Resource, server_url
from everbrook.spark.jobs.toml_values import EXPECTED
from everbrook.spark.options import ServerOptions, Spelling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTINUOUS, AVAILABLE_NOW = "continuous", "available-now"
_LONGEST_MS = 365 * 24 * 3_600_000


class InvalidJobs(Exception):
    """A file of jobs can't be used; the message begins with the file and the key."""

    def __init__(self, file: str, key: str, problem: str) -> None:
        super().__init__(f"{file}: {key}: {problem}" if key else f"{file}: {problem}")
        self.key = key
        self.problem = problem


class PipelineBusy(Exception):
    """Another process runs the jobs of the same checkpoints."""


class PipelineMissing(Exception):
    """A pipeline has never run, or its file lacks the job."""


class JvmLost(Exception):
    """The JVM died while Spark was being started."""


class Trigger(Struct, frozen=True):
    """When batches run: with pauses, continuously, or until all that is available was read."""

    every_ms: int | None = None
    ends: bool = False

    @property
    def of_spark(self) -> dict[str, Any]:
        """The arguments of Spark's own trigger."""
        if self.ends:
            return {"availableNow": True}
        return {"processingTime": f"{self.every_ms or 0} milliseconds"}


def parse_trigger(text: str) -> Trigger:
    """Read a trigger, or raise ValueError."""
    words = text.strip().lower()
    if words in {CONTINUOUS, AVAILABLE_NOW}:
        return Trigger(ends=words == AVAILABLE_NOW)
    pause = words.removeprefix("every")
    try:
        every_ms = parse_duration_ms(pause) if pause != words and pause[:1].isspace() else 0
    except ValueError:
        every_ms = 0
    if not 0 < every_ms <= _LONGEST_MS:
        raise ValueError(
            f'must be "{CONTINUOUS}", "{AVAILABLE_NOW}", or a pause such as "every 5s" of up to a year, got {text!r}'
        )
    return Trigger(every_ms)


def format_trigger(trigger: Trigger) -> str:
    """Write a trigger as `parse_trigger` reads it."""
    if trigger.every_ms is not None:
        unit = next(unit for unit in ("h", "m", "s", "ms") if trigger.every_ms % UNIT_MS[unit] == 0)
        return f"every {trigger.every_ms // UNIT_MS[unit]}{unit}"
    return AVAILABLE_NOW if trigger.ends else CONTINUOUS


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
    """The settings of all jobs: the section [pipeline]."""

    checkpoints: Text = "checkpoints"
    progress: str = DEFAULT_PROGRESS
    metrics: Address | None = None
    master: Text = "local[2]"
    memory: Memory = "1g"
    spark: dict[str, str] = {}


class ServerKeys(Struct, frozen=True):
    """The server of sources and sinks that name no other: the section [server]."""

    url: Text | None = None
    token: Text | None = None
    token_file: Text | None = None
    ca_file: Text | None = None
    cert_file: Text | None = None
    key_file: Text | None = None
    insecure: bool = False


class PostgresKeys(Struct, frozen=True):
    """The database of sources and sinks that name no other: the section [postgres]."""

    url: Text | None = None


class JobKeys(Struct, frozen=True):
    """The keys of a job."""

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
        """Raise ValueError if options contradict each other. This opens no connection."""

    def describe(self) -> str:
        """Describe it in a few words."""

    def claims(self, job: "Job") -> frozenset[Resource]:
        """Return the resources that no other job may use."""

    def reads(self, job: "Job", resource: Resource) -> bool:
        """Return whether it reads a resource that a sink writes."""

    def endpoints(self, job: "Job") -> tuple["Endpoint", ...]:
        """Return the servers and databases that it needs."""

    def read(self, spark: "SparkSession", job: "Job") -> "DataFrame":
        """Begin to read."""

    def reset(self, job: "Job") -> list[str]:
        """Drop all progress that is kept outside the checkpoint, and return the names of what was dropped."""

    def lag_finder(self, job: "Job") -> "LagOf":
        """Make the function that finds the lag of a query."""


class Sink(Protocol):
    """A kind of sink."""

    MARKS: ClassVar[tuple[str, ...]]

    def check(self, job: "Job") -> None:
        """Raise ValueError if options contradict each other. This opens no connection."""

    def describe(self) -> str:
        """Describe it in a few words."""

    def claims(self, job: "Job") -> frozenset[Resource]:
        """Return the resources that no other job may write."""

    def writes(self, job: "Job") -> frozenset[Resource]:
        """Return all resources that it writes, also those that several jobs may write."""

    def endpoints(self, job: "Job") -> tuple["Endpoint", ...]:
        """Return the servers and databases that it needs."""

    def write(self, df: "DataFrame", job: "Job", on_dead_letters: Callable[[int], None]) -> Any:
        """Begin to write, and return the query."""

    def reset(self, job: "Job") -> list[str]:
        """Drop all progress that is kept outside the checkpoint, and return the names of what was dropped."""


class Job(Struct, frozen=True):
    """A job: its source, its query, its sink and its trigger."""

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
        return f"{self.source.describe()} → {self.sink.describe()}"

    def endpoints(self) -> tuple["Endpoint", ...]:
        """Return the servers and databases that it needs, each once."""
        return tuple(dict.fromkeys((*self.source.endpoints(self), *self.sink.endpoints(self))))

    def path_of(self, text: str) -> Path:
        """Resolve a path, or the URL of a file, that the file of jobs contains."""
        return (self.folder / Path(text.removeprefix("file://")).expanduser()).resolve()


class Pipeline(Struct, frozen=True):
    """A file of jobs."""

    file: str
    keys: PipelineKeys
    checkpoints: Path
    server: ServerKeys
    jobs: dict[str, Job]


def server_options(keys: ServerKeys) -> ServerOptions:
    """Return the options of the server of all jobs."""
    return ServerOptions(**structs.asdict(keys) | {"url": server_url(keys.url)})


def options_with_server(keys: Struct, job: Job, url: str | None) -> dict[str, str]:
    """Return keys as options of Spark, and the server. A server of its own gets no secrets of that of all jobs."""
    server = {} if url is not None else structs.asdict(job.server)
    return options_of(keys, **server | {"url": server_url(url or job.server.url)})


def options_of(keys: Struct, **chosen: object) -> dict[str, str]:
    """Return keys as options of Spark. `chosen` replaces keys of the same name."""
    given = structs.asdict(keys) | chosen
    return {_option_of(type(keys), name): _text(value) for name, value in given.items() if value is not None}


def spelling_of(kind: type[Struct]) -> Spelling:
    """Return the function by which a parser names the key of an option in its messages."""
    keys = {_option_of(kind, name): name for name in (*kind.__struct_fields__, *ServerKeys.__struct_fields__)}
    return lambda option: keys.get(option, option)


def _option_of(kind: type[Struct], key: str) -> str:
    renamed: dict[str, str] = getattr(kind, "RENAMED", {})
    first, *others = key.split("_")
    return renamed.get(key) or first + "".join(word.capitalize() for word in others)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(value)
    return json.encode(value).decode() if isinstance(value, dict) else str(value)
