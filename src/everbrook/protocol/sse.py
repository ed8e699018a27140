"""Server-Sent Events: one codec, encoder and decoder as inverses (§5.8).

A line end in a payload becomes a new `data:` line, whichever of CR, LF or CRLF it was: no payload can end its event or
forge another. A space follows the colon only where the payload's own line begins with one.
"""

import base64
import re

from msgspec import Struct

_LINE_END = re.compile(rb"\r\n|\r|\n")

KEEP_ALIVE = b": keep-alive\n\n"


class Event(Struct, frozen=True, gc=False):
    """One event: its type, its payload, and the id that a reconnecting reader sends back."""

    type: bytes
    data: bytes
    id: bytes | None = None


def encode_event(event: Event) -> bytes:
    """Write an event. The `id` comes last, so that `event` and `data` stand next to each other."""
    text = event.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = b"data:%b" % text.replace(b"\n", b"\ndata:")
    if b"data: " in lines:
        lines = (b"\n" + lines).replace(b"\ndata: ", b"\ndata:  ")[1:]
    position = b"" if event.id is None else b"id: %b\n" % event.id
    return b"event: %b\n%b\n%b\n" % (event.type, lines, position)


def encode_base64(data: bytes) -> bytes:
    """Carry bytes that are not text in an event's payload (§5.8)."""
    return base64.b64encode(data)


def decode_base64(data: bytes) -> bytes:
    """Read the payload of a binary stream's event: line ends between the lines do not count (§5.8)."""
    return base64.b64decode(data.replace(b"\n", b"").replace(b"\r", b""), validate=True)


class Decoder:
    """Reads events from bytes as they arrive, however they are cut."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._after_cr = False
        self._first_line = True
        self._type = b""
        self._data: list[bytes] = []
        self._id: bytes | None = None

    def feed(self, received: bytes) -> list[Event]:
        """Take more bytes, and give every event that they complete."""
        events = (self._take(line) for line in self._lines(received))
        return [event for event in events if event]

    def _lines(self, received: bytes) -> list[bytes]:
        """Cut whole lines off what was received. A CR ends its line at once; the LF of a CRLF may come later."""
        if not received:
            return []
        if self._after_cr:
            received = received.removeprefix(b"\n")
        self._after_cr = received.endswith(b"\r")
        *lines, rest = _LINE_END.split(received)
        if lines:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
            if self._first_line:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
                self._first_line = False
        self._unfinished.append(rest)
        return lines

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._type = value
        elif field == b"id" and b"\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> Event | None:
        """End an event. One without data is none, as the HTML standard has it."""
        data, kind = self._data, self._type or b"message"
        self._data, self._type = [], b""
        return Event(kind, b"\n".join(data), self._id) if data else None


class Control(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a control event tells a reader."""

    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False
    data_altered: bool = False
    """Whether the data before it is not what is stored, byte for byte: events turn the CRs of a text into LFs."""
