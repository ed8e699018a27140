"""The ledger: what was sent, what was acknowledged, and whether a stream shows exactly that.

A message says who sent it and with which number. What was acknowledged must be there once, in the order of sending, and
end at the offset that the acknowledgement named. What was never answered may be there, once. Nothing else may be.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_HEAD = re.compile(rb"([a-z0-9-]+) (\d+) (\d+)\n")


class PromiseBroken(Exception):
    """The server shows something else than it acknowledged."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message as a stream shows it. In JSON mode it does not say where it ends."""

    writer: str
    number: int
    end: int | None


@dataclass(slots=True)
class Log:
    """What one writer has sent to one stream, its messages numbered from 0."""

    writer: str
    sent: int = 0
    acknowledged: dict[int, int | None] = field(default_factory=dict)

    def send(self) -> int:
        """Take the next number: from here on it may be in the stream."""
        self.sent += 1
        return self.sent - 1

    def acknowledge(self, number: int, end: int | None) -> None:
        """Remember that the server vouched for a message, and where it said that the message ends."""
        self.acknowledged[number] = end

    def since(self, offset: int) -> "Log":
        """Give what is left of it when a stream has let go of everything before an offset."""
        kept = {number: end for number, end in self.acknowledged.items() if end is None or end > offset}
        return Log(self.writer, self.sent, kept)


def message(writer: str, number: int, size: int) -> bytes:
    """Make a message whose every byte follows from its head."""
    return b"%b %d %d\n%b" % (writer.encode(), number, size, filler(number, size))


def filler(number: int, size: int) -> bytes:
    """Make `size` bytes that differ from number to number."""
    pattern = b"%d." % number
    return (pattern * (size // len(pattern) + 1))[:size]


def parse(content: bytes, first: int = 0) -> Iterator[Found]:
    """Take the bytes of a stream from offset `first` on apart into messages, and check each of their bytes."""
    position = 0
    while position < len(content):
        head = _HEAD.match(content, position)
        if head is None:
            raise PromiseBroken(f"no message begins at {first + position}: {content[position : position + 80]!r}")
        number, size = int(head[2]), int(head[3])
        position = head.end() + size
        if content[head.end() : position] != filler(number, size):
            raise PromiseBroken(
                f"message {number} of {head[1].decode()}, which ends at {first + position}, is not as it was sent"
            )
        yield Found(head[1].decode(), number, first + position)


def parse_json(pages: list[bytes]) -> Iterator[Found]:
    """Take the pages of a JSON stream apart into messages."""
    for page in pages:
        for entry in json.loads(page):
            yield Found(entry["writer"], entry["number"], None)


def verify(found: Iterator[Found], logs: list[Log]) -> int:
    """Hold a stream against what was sent to it; tells how many messages it has."""
    by_writer = {log.writer: log for log in logs}
    places: dict[str, dict[int, int | None]] = {log.writer: {} for log in logs}
    for entry in found:
        log = by_writer.get(entry.writer)
        if log is None or entry.number >= log.sent:
            raise PromiseBroken(f"nobody has sent message {entry.number} of {entry.writer}")
        _place(places[entry.writer], entry)
    for log in logs:
        _check_acknowledged(log, places[log.writer])
    return sum(len(seen) for seen in places.values())


def _place(seen: dict[int, int | None], entry: Found) -> None:
    last = next(reversed(seen), -1)
    if entry.number in seen:
        raise PromiseBroken(f"message {entry.number} of {entry.writer} is there twice, again at {entry.end}")
    if entry.number < last:
        raise PromiseBroken(f"message {entry.number} of {entry.writer} follows its message {last}")
    seen[entry.number] = entry.end


def _check_acknowledged(log: Log, seen: dict[int, int | None]) -> None:
    for number, end in log.acknowledged.items():
        if number not in seen:
            raise PromiseBroken(f"message {number} of {log.writer} was acknowledged at {end} and is lost")
        if end is not None and seen[number] is not None and seen[number] != end:
            raise PromiseBroken(
                f"message {number} of {log.writer} was acknowledged at {end} and ends at {seen[number]}"
            )
