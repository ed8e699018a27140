"""Server-Sent Events: a codec, in which the decoder is the inverse of the encoder (§5.8).

Each line end in a payload, be it CR, LF or CRLF, begins a new `data:` line, so that no payload can end its event or
forge another one. A space follows the colon only if the line of the payload itself begins with a space.
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
    """Encode an event. The `id` comes last, so that `event` and `data` are next to each other."""
    text = event.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = b"data:%b" % text.replace(b"\n", b"\ndata:")
    if b"data: " in lines:
        # Decoders strip one space behind the colon, so a line that begins with a space gets a second one.
        lines = (b"\n" + lines).replace(b"\ndata: ", b"\ndata:  ")[1:]
    position = b"" if event.id is None else b"id: %b\n" % event.id
    return b"event: %b\n%b\n%b\n" % (event.type, lines, position)


def encode_base64(data: bytes) -> bytes:
    """Encode bytes that are not text for the payload of an event (§5.8)."""
    return base64.b64encode(data)


def decode_base64(data: bytes) -> bytes:
    """Decode the payload of a binary stream's event. Line ends in it are ignored (§5.8)."""
    return base64.b64decode(data.replace(b"\n", b"").replace(b"\r", b""), validate=True)


class Decoder:
    """Decodes events from bytes as they arrive, in chunks of any size."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._after_cr = False
        self._first_line = True
        self._type = b""
        self._data: list[bytes] = []
        self._id: bytes | None = None

    def feed(self, received: bytes) -> list[Event]:
        """Take more bytes, and return the events that they complete."""
        events = (self._take(line) for line in self._lines(received))
        return [event for event in events if event]

    def _lines(self, received: bytes) -> list[bytes]:
        """Return the complete lines. A CR ends its line at once, and the LF of a CRLF may come later."""
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
                # A byte order mark at the beginning is no part of the stream (HTML standard).
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
        """End an event. An event without data is dropped (HTML standard)."""
        data, kind = self._data, self._type or b"message"
        self._data, self._type = [], b""
        return Event(kind, b"\n".join(data), self._id) if data else None


class Control(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The payload of a control event."""

    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False
    data_altered: bool = False
    """Whether the data before it differs from the stored bytes: events turn the CRs of a text into LFs."""
