"""``everbrook append``: appends messages from arguments, files and standard input, as they arrive."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

import click

from everbrook.cli.connection import bucket_option, offset_option, open_described, server_options
from everbrook.cli.terminal.input import INPUT, MAX_BATCH_MESSAGES, Input, message_of, open_input
from everbrook.cli.terminal.output import note, print_json

if TYPE_CHECKING:
    from everbrook import Producer, Stream

_DIGITS = 32


class How(TypedDict):
    """The options that divide and append messages."""

    lines: bool
    binary: bool
    as_json: bool
    if_match: str | None
    producer: str | None
    anew: bool


class AnotherInput(click.UsageError):
    """The producer has begun to append another input. Nothing of this one is appended."""


class Sink(Protocol):
    """Appends messages; `offset` is the offset after them, once it is known."""

    offset: str

    def send(self, batch: list[bytes]) -> None:
        """Append messages."""


@click.command()
@click.argument("name", metavar="STREAM")
@click.argument("arguments", metavar="[MESSAGE]...", nargs=-1)
@bucket_option
@click.option("--file", "files", type=INPUT, multiple=True, help="Append the content of a file; - is standard input.")
@click.option("--lines", is_flag=True, help="Each line is a message, with its line end; a MESSAGE gets one.")
@click.option("--binary", is_flag=True, help="Each chunk of input is a message, as it arrives.")
@click.option("--json", "as_json", is_flag=True, help="The messages are JSON; print JSON too.")
@offset_option("--if-match", "Append only if the stream ends there.")
@click.option(
    "--producer", metavar="ID", help="Append exactly once: the same command, run again, continues where it stopped."
)
@click.option("--anew", is_flag=True, help="With --producer: append a new input, from its beginning.")
@server_options
def append(
    name: str, bucket: str | None, arguments: tuple[str, ...], files: tuple[str, ...], **how: Unpack[How]
) -> None:
    """Append each MESSAGE to STREAM, or else the content of --file or standard input. Prints the offset after the last.

    In a JSON stream each JSON value is a message, and ends at the end of a line. In any other stream a file is one
    message, unless --lines or --binary divide it; then, and in JSON streams, messages are sent as they arrive.
    """
    _check(how)
    if not (arguments or files) and sys.stdin is not None and sys.stdin.isatty():
        note("reading messages from the terminal; end them with Ctrl-D")
    with open_described(name, bucket) as (stream, head):
        json = _is_json(head.content_type, how)
        with _sink(stream, how, json=json) as sink:
            count = _send_all(sink, _batches(arguments, files, how, json=json))
    if how["as_json"]:
        print_json({"stream": name, "offset": sink.offset, "messages": count})
    else:
        click.echo(sink.offset)


def _check(how: How) -> None:
    if how["binary"] and (how["lines"] or how["as_json"]):
        raise click.UsageError("--binary can't be combined with --lines or --json")
    if how["if_match"] and how["producer"]:
        raise click.UsageError("--if-match and --producer can't be combined")
    if how["anew"] and not how["producer"]:
        raise click.UsageError("--anew needs --producer")


def _is_json(content_type: str, how: How) -> bool:
    from everbrook.client.content import Kind, kind_of

    json = kind_of(content_type) is Kind.JSON
    if how["as_json"] and not json:
        raise click.UsageError(f"--json is for JSON streams, but this stream is {content_type}")
    if how["binary"] and json:
        raise click.UsageError("--binary is not for JSON streams: leave it out")
    return json


def _batches(arguments: tuple[str, ...], files: tuple[str, ...], how: How, *, json: bool) -> Iterator[list[bytes]]:
    """Yield the messages to append, as they arrive."""
    if arguments:
        yield [message_of(argument, json=json, lines=how["lines"]) for argument in arguments]
    for path in files or (() if arguments else ("-",)):
        with open_input(path) as file:
            yield from _divided(Input(file), how, json=json)


def _divided(source: Input, how: How, *, json: bool) -> Iterator[list[bytes]]:
    if json:
        return source.values()
    if how["lines"]:
        return source.lines()
    return source.chunks() if how["binary"] else source.whole()


def _send_all(sink: Sink, batches: Iterator[list[bytes]]) -> int:
    """Append everything. Returns how many messages that were."""
    count = 0
    try:
        for batch in batches:
            sink.send(batch)
            count += len(batch)
    except AnotherInput:
        raise
    except click.UsageError as error:
        if not count:
            raise
        raise click.UsageError(f"{error.message}; the {count} messages before it are appended") from error
    if not count:
        raise click.UsageError("nothing to append: the input is empty")
    return count


@contextmanager
def _sink(stream: "Stream[Any]", how: How, *, json: bool) -> Iterator[Sink]:
    if how["producer"] is None:
        yield Plain(stream, how["if_match"], json=json)
        return
    # Only in JSON streams can a request have several messages.
    items = MAX_BATCH_MESSAGES if json else 1
    with stream.producer(how["producer"], resume=True, max_batch_items=items) as producer:
        yield (sink := Produced(stream, producer, anew=how["anew"], divisible=how["binary"]))
        sink.finish()


class Plain:
    """Sends each batch of JSON messages in one request; in other streams a request is a message."""

    def __init__(self, stream: "Stream[Any]", if_match: str | None, *, json: bool) -> None:
        self.offset = ""
        self._stream = stream
        self._expected = if_match
        self._json = json

    def send(self, batch: list[bytes]) -> None:
        """Append messages. With --if-match, each request names the offset after the one before it."""
        # A request with several values, separated by commas, appends each of them as a message.
        for body in [b",".join(batch)] if self._json else batch:
            self.offset = self._stream.append(body, if_match=self._expected)
            self._expected = self._expected and self.offset


class Produced:
    """Sends the messages that earlier runs of the same command have not sent, through a producer.

    The position of a message is the number of input bytes up to its end, and a digest of these bytes, which detects
    another input.
    """

    def __init__(self, stream: "Stream[Any]", producer: "Producer[Any]", *, anew: bool, divisible: bool) -> None:
        """Begin `anew`, or skip the input that the producer has appended, also a part of a `divisible` message."""
        self.offset = ""
        self._stream = stream
        self._producer = producer
        self._divisible = divisible
        self._stored = "" if anew or producer.position is None else producer.position
        self._left = _bytes_of(self._stored, producer.id)
        self._bytes = 0
        self._digest = sha256()

    def send(self, batch: list[bytes]) -> None:
        """Append the messages that are not in the stream yet."""
        for message in batch:
            rest = message
            if self._left:
                rest = self._rest_of(message)
                if not rest:
                    continue
            self._take(rest)
            self._producer.append(rest, position=self._position)

    def finish(self) -> None:
        """Wait until all messages are in the stream."""
        if self._left:
            raise self._another_input("ends before them")
        self.offset = self._producer.flush() or self._stream.head().offset

    def _rest_of(self, message: bytes) -> bytes:
        """Skip the part of a message that an earlier run has appended, and return the rest."""
        size = min(len(message), self._left) if self._divisible else len(message)
        self._take(message[:size])
        self._left = max(0, self._left - size)
        if not self._left and self._position != self._stored:
            raise self._another_input("begins otherwise")
        return message[size:]

    def _take(self, data: bytes) -> None:
        self._bytes += len(data)
        # Without a separator, "1" and "23" would be "12" and "3". Of divisible input the bounds differ between runs.
        self._digest.update(data if self._divisible else data + b"\0")

    @property
    def _position(self) -> str:
        return f"{self._bytes} {self._digest.hexdigest()[:_DIGITS]}"

    def _another_input(self, how: str) -> AnotherInput:
        count, name = self._stored.split()[0], self._producer.id
        return AnotherInput(
            f"the producer {name!r} has appended {count} bytes, and this input {how}: it goes on with the same input "
            "only. --anew appends another one, and another --producer keeps both"
        )


def _bytes_of(position: str, name: str) -> int:
    """Read how many bytes a producer has appended."""
    if not position:
        return 0
    count, _, digest = position.partition(" ")
    if not count.isdecimal() or len(digest) != _DIGITS:
        raise click.UsageError(
            f"the producer {name!r} belongs to another program: its position is {position!r}; pass another --producer"
        )
    return int(count)
