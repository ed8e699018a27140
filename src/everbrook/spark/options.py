"""Options of sources and sinks, checked on the driver before anything is read or written.

Spark gives options as text, under names whose case does not matter. Each option is taken once, by the name in the
documentation; an option that is not taken is an error. Options that contradict each other are refused.

The results are plain structs, so that they travel to executors. Sizes that users do not set are in `…Tuning` structs.
"""

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from everbrook.client.environment import server_url
from everbrook.protocol.subscriptions.pattern import GlobTrie
from everbrook.spark.streams.offsets import EARLIEST, LATEST, Boundary, parse_boundary
from everbrook.suggestions import find_nearest

T = TypeVar("T")
Spelling = Callable[[str], str]
"""Returns the name by which the user knows an option: a file of jobs has keys with names of their own."""

_YES, _NO = {"true", "1", "yes"}, {"false", "0", "no"}
_OF_SPARK = ("checkpointLocation", "queryName", "outputMode")
"""Options of Spark itself, which it passes on to sources and sinks."""
MAX_APPEND_BYTES = 16 * 1024 * 1024
BATCH_BYTES = 32 * 1024 * 1024
AUTO = "auto"
"""A limit of `BATCH_BYTES` on servers that report where messages end, and no limit on others."""


class InvalidOption(ValueError):
    """An option of a source or sink is invalid."""

    restartable = False


class GivenOptions:
    """The options of one source or sink. An option that is not taken by its parser is an error."""

    def __init__(self, options: Mapping[str, str], *, of: str, spelling: Spelling | None = None) -> None:
        """Take the options of a source or sink, which error messages call `of`.

        `spelling` names the options in them.
        """
        own = {name.lower() for name in _OF_SPARK}
        self._given = {name.lower(): value for name, value in options.items() if name.lower() not in own}
        self._of = of
        self._spelling = spelling
        self._known: list[str] = []

    def spelled(self, name: str) -> str:
        """Return the name of an option as the user wrote it."""
        return name if self._spelling is None else self._spelling(name)

    def called(self, name: str) -> str:
        """Return the name of an option as the subject of a message."""
        return f"the option {name}" if self._spelling is None else self._spelling(name)

    def text(self, name: str) -> str | None:
        """Take an option. None if it was not given."""
        self._known.append(name)
        return self._given.get(name.lower())

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Take an option whose text `parse` reads. Its ValueError becomes an error with the option's name."""
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise InvalidOption(f"{self.called(name)} {error}, got {text!r}") from error

    def optional(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Take an option that has no default."""
        return self.parsed(name, parse, None)

    def below(self, prefix: str) -> dict[str, str]:
        """Take all options whose names begin with a prefix, by the rest of their names."""
        self._known.append(f"{prefix}*")
        return {name[len(prefix) :]: value for name, value in self._given.items() if name.startswith(prefix.lower())}

    def require_known(self) -> None:
        """Refuse options that were not taken."""
        taken = {name.lower() for name in self._known}
        prefixes = tuple(name[:-1] for name in taken if name.endswith("*"))
        for name in self._given:
            if name not in taken and not (prefixes and name.startswith(prefixes)):
                raise InvalidOption(f"the {self._of} has no option {name!r}. {self._hint(name)}")

    def _hint(self, name: str) -> str:
        nearest = find_nearest(name, self._known)
        if nearest:
            return f"Did you mean {nearest}?"
        return f"It has {', '.join(sorted(self._known))}"


def format_options(options: Mapping[str, str | float | bool]) -> dict[str, str]:
    """Write options as text, as Spark does."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def parse_flag(text: str) -> bool:
    if text.lower() in _YES | _NO:
        return text.lower() in _YES
    raise ValueError("must be true or false")


def parse_count(text: str) -> int:
    """Read a number of things, of which there is at least one."""
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError("must be a whole number above 0")


def parse_names(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if all(names):
        return tuple(dict.fromkeys(names))
    raise ValueError("must be names with commas between them")


def one_of(*allowed: str) -> Callable[[str], str]:
    """Make a parser of words, whose case does not matter."""
    by_lower = {word.lower(): word for word in allowed}

    def parse(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"must be {', '.join(allowed[:-1])} or {allowed[-1]}")
        return by_lower[text.lower()]

    return parse


class StreamTuning(Struct, frozen=True, kw_only=True):
    """For queries that write streams."""

    large_bytes: int = 64 * 1024 * 1024
    """Tasks append a batch that is larger than this, else the driver does."""


class TableTuning(Struct, frozen=True, kw_only=True):
    """For queries that write tables of Postgres or of the lake."""

    large_bytes: int = 4 * 1024 * 1024
    """Tasks write a batch that is larger than this, else the driver does."""


DEFAULT_TABLE_TUNING = TableTuning()


class ServerOptions(Struct, frozen=True):
    """The server and the credentials for it. Equal values share their connections."""

    url: str | None = None
    token: str | None = None
    token_file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    insecure: bool = False
    timeout_secs: float = 30.0


class Selection(Struct, frozen=True):
    """Which streams are read: some by name, or all that begin with a prefix or match a pattern, in a bucket or not."""

    names: tuple[str, ...] = ()
    prefix: str = ""
    pattern: str | None = None
    bucket: str | None = None

    def __contains__(self, name: str) -> bool:
        if self.names:
            return name in self.names
        if self.pattern is None:
            return name.startswith(self.prefix)
        patterns = GlobTrie[bool]()
        patterns.add(self.pattern, value=True)
        return bool(patterns.match(name))


class Limits(Struct, frozen=True):
    """The largest size of a micro-batch."""

    max_rows: int | None = None
    max_bytes: int | None = None
    required: bool = True
    """Whether a server that does not report where messages end is refused."""

    def __bool__(self) -> bool:
        return self.max_rows is not None or self.max_bytes is not None


class SourceOptions(Struct, frozen=True):
    """What is read, and how."""

    server: ServerOptions
    selection: Selection
    starting: Boundary | None = None
    ending: Boundary | None = None
    limits: Limits = Limits()
    min_partitions: int = 1
    max_partitions: int = 2
    fail_on_data_loss: bool = True
    envelope: str = "raw"
    value_type: str | None = None
    failfast: bool = False
    driver_reads: bool = True


class SinkOptions(Struct, frozen=True):
    """Where rows go, and how."""

    server: ServerOptions
    stream: str | None = None
    bucket: str | None = None
    auto_create: bool = False
    content_type: str | None = None
    message: str | None = None
    ttl_secs: int | None = None
    close_on_finish: bool = False
    order_by: tuple[str, ...] = ()
    max_append_bytes: int = MAX_APPEND_BYTES
    sink_id: str = ""


def parse_source(options: Mapping[str, str], spelling: Spelling | None = None) -> SourceOptions:
    """Read the options of `spark.read` or `spark.readStream`."""
    given = GivenOptions(options, of="everbrook source", spelling=spelling)
    max_partitions = given.optional("maxPartitions", parse_count)
    min_partitions = given.parsed("minPartitions", parse_count, 1)
    if max_partitions is not None and min_partitions > max_partitions:
        most = given.spelled("maxPartitions")
        raise InvalidOption(f"{given.spelled('minPartitions')} is {min_partitions}, and {most} only {max_partitions}")
    parsed = SourceOptions(
        server_of(given),
        Selection(),
        starting=given.optional("startingOffsets", parse_boundary),
        ending=given.optional("endingOffsets", parse_boundary),
        limits=_limits(given),
        min_partitions=min_partitions,
        max_partitions=max_partitions or max(2, min_partitions, os.cpu_count() or 1),
        fail_on_data_loss=given.parsed("failOnDataLoss", parse_flag, default=True),
        envelope=given.parsed("envelope", one_of("raw", "change"), "raw"),
        value_type=given.optional("valueType", one_of("string", "binary")),
        failfast=given.parsed("mode", one_of("PERMISSIVE", "FAILFAST"), "PERMISSIVE") == "FAILFAST",
        driver_reads=given.parsed("readOn", one_of("auto", "tasks"), "auto") == "auto",
    )
    if parsed.ending is not None and parsed.ending.everywhere == EARLIEST:
        raise InvalidOption("the option endingOffsets must be latest, or offsets as JSON, got 'earliest'")
    return replace(parsed, selection=selection_of(given))


def _limits(given: GivenOptions) -> Limits:
    max_rows = given.optional("maxRowsPerTrigger", parse_count)
    if given.text("maxBytesPerTrigger") == AUTO:
        return Limits(max_rows, BATCH_BYTES, required=max_rows is not None)
    return Limits(max_rows, given.optional("maxBytesPerTrigger", parse_count))


def require_streaming(options: SourceOptions) -> None:
    """Refuse what only a batch has."""
    if options.ending is not None:
        raise InvalidOption(
            "endingOffsets is for spark.read: a streaming query has no end. To stop at the "
            "current ends, use the trigger availableNow"
        )


def require_batch(options: SourceOptions) -> None:
    """Refuse what only a streaming query has."""
    if options.limits:
        raise InvalidOption("maxRowsPerTrigger and maxBytesPerTrigger are for spark.readStream: a batch has none")
    if options.starting is not None and options.starting.everywhere == LATEST:
        raise InvalidOption(
            "the option startingOffsets must be earliest, or offsets as JSON, where a batch is read, got 'latest'"
        )


def parse_sink(options: Mapping[str, str], spelling: Spelling | None = None) -> SinkOptions:
    """Read the options of `df.write` or `df.writeStream`."""
    given = GivenOptions(options, of="everbrook sink", spelling=spelling)
    parsed = SinkOptions(
        server_of(given),
        stream=_one(given, "stream", "path"),
        bucket=given.text("bucket"),
        auto_create=given.parsed("autoCreate", parse_flag, default=False),
        content_type=given.text("contentType"),
        message=given.optional("message", one_of("value", "object")),
        ttl_secs=given.optional("ttlSecs", parse_count),
        close_on_finish=given.parsed("closeOnFinish", parse_flag, default=False),
        order_by=given.parsed("orderBy", parse_names, ()),
        max_append_bytes=given.parsed("maxAppendBytes", parse_count, MAX_APPEND_BYTES),
        sink_id=given.text("sinkId") or "",
    )
    given.require_known()
    if parsed.ttl_secs is not None and not parsed.auto_create:
        ttl, create = given.spelled("ttlSecs"), given.spelled("autoCreate")
        raise InvalidOption(f"{ttl} is for streams that the sink creates: set {create} too")
    return parsed


def server_of(given: GivenOptions) -> ServerOptions:
    """Take the options that say where the server is."""
    server = ServerOptions(
        # The environment of the driver counts: tasks may run on machines where the variable is not set.
        url=server_url(given.text("url")),
        token=given.text("token"),
        token_file=given.text("tokenFile"),
        headers=tuple(sorted(given.below("header.").items())),
        ca_file=given.text("caFile"),
        cert_file=given.text("certFile"),
        key_file=given.text("keyFile"),
        insecure=given.parsed("insecure", parse_flag, default=False),
        timeout_secs=float(given.parsed("timeoutSecs", parse_count, 30)),
    )
    if server.token is not None and server.token_file is not None:
        raise InvalidOption(f"give token or {given.spelled('tokenFile')}, not both")
    if server.key_file is not None and server.cert_file is None:
        key, certificate = given.spelled("keyFile"), given.spelled("certFile")
        raise InvalidOption(f"{key} is the key of a certificate: give {certificate} too")
    return server


def selection_of(given: GivenOptions) -> Selection:
    """Take the options that select streams. This comes last: options that were not taken by then are refused."""
    stream, bucket = _one(given, "stream", "path"), given.text("bucket")
    streams = given.optional("streams", parse_names)
    prefix, pattern = given.text("streamPrefix"), given.text("streamPattern")
    chosen = {"stream": stream, "streams": streams, "streamPrefix": prefix, "streamPattern": pattern}
    chosen = {given.spelled(name): value for name, value in chosen.items()}
    given.require_known()  # before a missing option is reported: its name may be misspelt
    ways = [name for name, value in chosen.items() if value is not None]
    if len(ways) > 1:
        raise InvalidOption(f"{' and '.join(ways)} contradict each other: give one of {', '.join(chosen)}")
    if not ways and bucket is None:
        raise InvalidOption(f"which streams? Give one of {', '.join(chosen)} or bucket")
    names = streams or ((stream,) if stream is not None else ())
    return Selection(tuple(_path(name) for name in names), prefix or "", pattern, bucket)


def _path(name: str) -> str:
    if name.startswith(("http://", "https://")):
        raise InvalidOption(
            f"a stream is a path below the server's root, and the server is the option url, got {name!r}"
        )
    return name.lstrip("/")


def _one(given: GivenOptions, name: str, alias: str) -> str | None:
    """Take an option with an alias: Spark passes the argument of `.load(…)` and `.save(…)` as `path`."""
    value, other = given.text(name), given.text(alias)
    if value is not None and other is not None:
        raise InvalidOption(f"the {name} is {value!r} by its option, and {other!r} by its path: give one of them")
    found = value if value is not None else other
    if found is not None and not found.strip("/"):
        raise InvalidOption(f"{given.called(name)} must be the name of a stream, got {found!r}")
    return found
