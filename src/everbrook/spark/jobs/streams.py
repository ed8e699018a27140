"""Streams as sources and as sinks of jobs."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct, json, structs

from everbrook.protocol.subscriptions.pattern import GlobTrie
from everbrook.spark.given import InvalidOption
from everbrook.spark.jobs.job import Count, Job, Lag, LagOf, ServerKeys, Text
from everbrook.spark.jobs.places import Place, server_url
from everbrook.spark.lags import LagFinder
from everbrook.spark.options import AUTO, parse_sink, parse_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "everbrook"
_OPTIONS = {"start": "startingOffsets", "prefix": "streamPrefix", "pattern": "streamPattern"}
"""Keys that are called otherwise as options of Spark. The others differ only in their spelling."""
_NO_OPTIONS = {"schema"}
_ANY = "\0"


class StreamSource(Struct, frozen=True):
    """Streams that are read: one, several, or all that match."""

    MARKS: ClassVar[tuple[str, ...]] = ("stream", "streams", "prefix", "pattern", "bucket")

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
        """Refuse options that contradict each other."""
        try:
            parse_source(self._options(job))
        except InvalidOption as error:
            raise ValueError(in_keys(str(error), self)) from None

    def describe(self) -> str:
        """Say which streams."""
        if self.stream is not None:
            return f"stream {self.stream}"
        if self.streams is not None:
            return f"streams {', '.join(self.streams)}"
        chosen = f"streams {self.prefix}*" if self.prefix else f"streams {self.pattern or '*'}"
        return f"{chosen} of {self.bucket}" if self.bucket else chosen

    def claims(self, job: Job) -> frozenset[str]:
        """Name nothing: any number of jobs may read a stream."""
        return frozenset()

    def reads(self, job: Job, claim: str) -> bool:
        """Tell whether a stream is one of those that were named, or matches."""
        url = server_url(self.url or job.server.url)
        named = [each for each in (*(self.streams or ()), self.stream) if each]
        if named:
            return claim in {stream_name(url, self.bucket, each) for each in named}
        before, _, behind = stream_name(url, self.bucket, _ANY).partition(_ANY)
        if not (claim.startswith(before) and claim.endswith(behind)):
            return False
        name = claim[len(before) : len(claim) - len(behind)]
        return name.startswith(self.prefix.lstrip("/")) if self.prefix else self._matches(name)

    def _matches(self, name: str) -> bool:
        if self.pattern is None:
            return True
        patterns = GlobTrie[bool]()
        patterns.add(self.pattern.strip("/"), value=True)
        return bool(patterns.match(name))

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give the server."""
        return (Place(server_url(self.url or job.server.url)),)

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        """Begin to read."""
        reader = spark.readStream.format(FORMAT).options(**self._options(job))
        return (reader if self.schema is None else reader.schema(self.schema)).load()

    def reset(self, job: Job) -> list[str]:
        """Forget nothing: how far streams were read is in the checkpoint."""
        return []

    def lag_finder(self, job: Job) -> LagOf:
        """Add up what of each stream was not read yet."""
        finder = LagFinder(parse_source(self._options(job)).server, self.bucket)

        def lag(progress: Any) -> Lag:
            lags = finder.find(progress)
            return Lag(sum(lags.values()) if lags else None)

        return lag

    def _options(self, job: Job) -> dict[str, str]:
        limit = {} if self.max_rows_per_trigger or self.max_bytes_per_trigger else {"maxBytesPerTrigger": AUTO}
        return options_of(job, self, self.url) | limit


class StreamSink(Struct, frozen=True):
    """Streams that are written: one for all rows, or the one that the column `stream` of each row names."""

    MARKS: ClassVar[tuple[str, ...]] = ("stream", "by_column", "bucket")

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
        """Refuse options that contradict each other."""
        if (self.stream is None) == (self.by_column is None):
            raise ValueError('give stream, or by_column = "stream" where rows say themselves which stream they go to')
        if self.close_on_finish and not job.trigger.ends:
            raise ValueError('close_on_finish needs a job that ends: trigger = "available-now"')
        try:
            parse_sink(self._options(job))
        except InvalidOption as error:
            raise ValueError(in_keys(str(error), self)) from None

    def describe(self) -> str:
        """Say which stream."""
        return "streams by column stream" if self.stream is None else f"stream {self.stream}"

    def claims(self, job: Job) -> frozenset[str]:
        """Name the stream."""
        return (
            frozenset() if self.stream is None else frozenset({stream_name(self._url(job), self.bucket, self.stream)})
        )

    def writes(self, job: Job) -> frozenset[str]:
        """Name the stream."""
        return self.claims(job)

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give the server."""
        return (Place(self._url(job)),)

    def write(self, df: "DataFrame", job: Job, on_dead_letters: Callable[[int], None]) -> Any:
        """Begin to write."""
        from everbrook.spark.writing import write_stream

        options: dict[str, Any] = self._options(job)
        return write_stream(df, str(job.checkpoint), trigger=job.trigger.of_spark, query_name=job.name, **options)

    def reset(self, job: Job) -> list[str]:
        """Forget nothing: a new checkpoint is a new query, which the server has not heard of."""
        return []

    def _url(self, job: Job) -> str:
        return server_url(self.url or job.server.url)

    def _options(self, job: Job) -> dict[str, str]:
        return {name: text for name, text in options_of(job, self, self.url).items() if name != "byColumn"}


def stream_name(url: str, bucket: str | None, stream: str) -> str:
    """Name a stream for people, and so that two of the same name are one."""
    return f"the stream {stream.strip('/')} of {f'{bucket} at ' if bucket else ''}{url.rstrip('/')}"


def options_of(job: Job, keys: Struct, url: str | None) -> dict[str, str]:
    """Give keys as options of Spark. A server of its own gets nothing that was meant for that of all jobs."""
    server = {} if url is not None else structs.asdict(job.server)
    given = {**server, **structs.asdict(keys), "url": server_url(url or job.server.url)}
    return {
        _option(name): _text(value)
        for name, value in given.items()
        if value is not None and value is not False and name not in _NO_OPTIONS
    } | ({"failOnDataLoss": "false"} if given.get("fail_on_data_loss") is False else {})


def _option(key: str) -> str:
    first, *others = key.split("_")
    return _OPTIONS.get(key) or first + "".join(word.capitalize() for word in others)


def in_keys(words: str, keys: Struct) -> str:
    """Say what is wrong with options in the words of a file."""
    names = {_option(key): key for key in (*keys.__struct_fields__, *ServerKeys.__struct_fields__)}
    return re.sub(r"\w+", lambda found: names.get(found[0], found[0]), words).replace("the option ", "")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(value)
    return json.encode(value).decode() if isinstance(value, dict) else str(value)
