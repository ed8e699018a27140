"""Messages from arguments, files and standard input.

In a JSON stream each JSON value is a message. A value ends at the end of a line and may span several lines. In any
other stream an input is a message, or with `--lines` each line of it, or with `--binary` each chunk that arrives.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import click

CHUNK_BYTES = 256 * 1024
MAX_BATCH_MESSAGES = 10_000
_LONGEST_QUOTE = 60

# JSON strings do not span lines, so the brackets outside of them tell whether the value continues on the next line.
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


INPUT = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
"""A file to be read, or `-` for standard input."""


@contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        if sys.stdin is None:
            raise click.UsageError("standard input is closed: there is nothing to read")
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield file


class Input:
    """A source of messages, with a name for error messages."""

    def __init__(self, file: BinaryIO) -> None:
        self.name = str(getattr(file, "name", "<stdin>")).replace("<stdin>", "standard input")
        self._file = file

    def whole(self) -> Iterator[list[bytes]]:
        data = self._file.read()
        if data:
            yield [data]

    def chunks(self) -> Iterator[list[bytes]]:
        while data := self._arrived():
            yield [data]

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines that arrived together, each with its line end."""
        begun: list[bytes] = []
        while data := self._arrived():
            head, end, rest = data.rpartition(b"\n")
            if end:
                yield from _batches(line + b"\n" for line in b"".join([*begun, head]).split(b"\n"))
                begun = []
            begun.append(rest)
        if any(begun):
            yield [b"".join(begun)]

    def values(self) -> Iterator[list[bytes]]:
        """Yield the JSON values that arrived together."""
        splitter = ValueSplitter(self.name)
        for lines in self.lines():
            if values := list(splitter.feed(lines)):
                yield values
        splitter.finish()

    def _arrived(self) -> bytes:
        read1 = getattr(self._file, "read1", self._file.read)
        data: bytes = read1(CHUNK_BYTES)
        return data


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    lines = iter(lines)
    while batch := list(islice(lines, MAX_BATCH_MESSAGES)):
        yield batch


class ValueSplitter:
    """Assembles JSON values from lines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._lines: list[bytes] = []
        self._depth = 0

    def feed(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Take lines, and return every value that they complete."""
        for line in lines:
            self._number += 1
            if not line.strip():
                continue
            self._lines.append(line)
            bare = _STRINGS.sub(b"", line)
            self._depth += bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
            if self._depth <= 0:
                yield self._complete()

    def finish(self) -> None:
        """Refuse a value without an end."""
        if self._lines:
            self._complete()

    def _complete(self) -> bytes:
        value = b"".join(self._lines).strip()
        where = f"{self._name}, line {self._number}"
        self._lines, self._depth = [], 0
        return check_json(value, where)


def message_of(argument: str, *, json: bool, lines: bool = False) -> bytes:
    """Convert an argument to a message."""
    message = argument.encode("utf-8", "surrogateescape")
    if json:
        return check_json(message.strip(), "MESSAGE")
    return message + b"\n" if lines else message


def check_json(value: bytes, where: str) -> bytes:
    """Return a value, or refuse it if it is not JSON."""
    from msgspec import MsgspecError

    from everbrook.protocol.json_text import require_json

    try:
        value.decode()
        require_json(value)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise click.UsageError(f"{where}: {_shown(value)} is not JSON ({error})") from error
    return value


def _shown(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return repr(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…")
