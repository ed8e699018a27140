"""Archives: streams as lines of JSON, a message in each, for any tool to read and any Everbrook server to import.

The rule: an import of the lines makes the same streams, byte for byte. (A line end within a JSON message becomes a
space.) The first key of a line names its kind:

    {"archive": 1}                                           the version; may be repeated where files were joined
    {"bucket": "agents", "retention": "max-age=60"}          a bucket; those of its streams that follow name it
    {"stream": "orders", "content_type": "text/plain", …}    a stream; what follows belongs to it
    {"snapshot": "0000000000000042", "content_type": …, …}   its snapshot, if it has one
    {"offset": "0000000000000042", "time_ms": …, …}          a message, and the time of its append
    {"end": "0000000000000084", "messages": 2, …}            the end of a complete stream

The bytes of a message or a snapshot are `value` if they are JSON, `text` if they are UTF-8, and `base64` otherwise.
"""

import binascii
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from everbrook.protocol.json_text import hide, may_have_lone

VERSION = 1
JSON = "application/json"


class InvalidArchive(Exception):
    """A line is not valid in an archive. The message has its number and the reason."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number}: {problem}")


class ArchiveLine(Struct, frozen=True, omit_defaults=True):
    """The version of the lines after it."""

    archive: int


class BucketLine(Struct, frozen=True, omit_defaults=True):
    bucket: str
    retention: str | None = None


class StreamLine(Struct, frozen=True, omit_defaults=True):
    """A stream as of one moment, with all messages from `earliest_offset` up to `tail_offset`."""

    stream: str
    content_type: str
    tail_offset: str
    created_at_ms: int
    bucket: str | None = None
    earliest_offset: str = "0" * 16
    ttl_secs: int | None = None
    expires_at: str | None = None
    retention: str | None = None
    closed: bool = False

    @property
    def json(self) -> bool:
        """Whether its messages are JSON values."""
        return self.content_type.partition(";")[0].strip().lower() == JSON

    @property
    def place(self) -> tuple[str | None, str]:
        """The identity of the stream: its bucket, if it has one, and its name."""
        return self.bucket, self.stream

    @property
    def title(self) -> str:
        """The name for messages to people."""
        return f"{self.bucket}/{self.stream}" if self.bucket else self.stream


class SnapshotLine(Struct, frozen=True):
    """The state that results from the messages before an offset."""

    snapshot: str
    content_type: str
    data: bytes


class MessageLine(Struct, frozen=True, gc=False):
    """A message, and the offset at which it begins."""

    offset: int
    time_ms: int
    payload: bytes
    json: bool
    """Whether it was written as a JSON value."""


class EndLine(Struct, frozen=True):
    end: str
    messages: int


Line = ArchiveLine | BucketLine | StreamLine | SnapshotLine | MessageLine | EndLine


class _Bytes(Struct):
    """The three ways to write bytes."""

    value: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class _Message(_Bytes):
    offset: str = ""
    time_ms: int = 0


class _Snapshot(_Bytes):
    snapshot: str = ""
    content_type: str = ""


class _Key(Struct):
    """The keys that identify the kind of a line."""

    archive: Raw | UnsetType = UNSET
    stream: Raw | UnsetType = UNSET
    offset: Raw | UnsetType = UNSET
    snapshot: Raw | UnsetType = UNSET
    end: Raw | UnsetType = UNSET
    bucket: Raw | UnsetType = UNSET


# In this order: a stream may name its bucket.
_KINDS: dict[str, type[Any]] = {
    "archive": ArchiveLine,
    "stream": StreamLine,
    "offset": _Message,
    "snapshot": _Snapshot,
    "end": EndLine,
    "bucket": BucketLine,
}
_decode_key = msgspec.json.Decoder(_Key).decode
_decode_message = msgspec.json.Decoder(_Message, strict=True).decode
_USUAL = b'{"offset":'


def format_line(line: ArchiveLine | BucketLine | StreamLine | EndLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def format_message(offset: int, time_ms: int, payload: bytes, *, json: bool) -> bytes:
    return b'{"offset":"%016d","time_ms":%d,%b}\n' % (offset, time_ms, _format_bytes(payload, json=json))


def format_snapshot(offset: str, content_type: str, data: bytes) -> bytes:
    """Write a snapshot. It is text or base64 even if its type is JSON, because servers do not check snapshots."""
    head = msgspec.json.encode({"snapshot": offset, "content_type": content_type})[1:-1]
    return b"{%b,%b}\n" % (head, _format_bytes(data, json=False))


def one_line(value: bytes) -> bytes:
    """Write JSON in one line: its line ends are between tokens, where a space means the same."""
    return value.replace(b"\n", b" ").replace(b"\r", b" ")


def _format_bytes(data: bytes, *, json: bool) -> bytes:
    if json:
        return b'"value":%b' % one_line(data)
    try:
        return b'"text":%b' % msgspec.json.encode(data.decode())
    except UnicodeDecodeError:
        return b'"base64":"%b"' % binascii.b2a_base64(data, newline=False)


def parse_line(text: bytes, number: int) -> Line:
    """Read a line. Error messages name its `number`."""
    try:
        if text.startswith(_USUAL):
            return _message(_decode_usual(text))
        return _parse(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidArchive(number, str(error)) from error


def _decode_usual(text: bytes) -> _Message:
    """Read a message. A value with lone surrogates can't be decoded, and is cut out of the end of its line."""
    try:
        return _decode_message(text)
    except msgspec.MsgspecError:
        if not may_have_lone(text):
            raise
        hidden = hide(text.rstrip())
        found = _decode_message(hidden)
        if isinstance(found.value, UnsetType) or not hidden.endswith(b"%b}" % bytes(found.value)):
            raise
        return replace(found, value=Raw(text.rstrip()[-1 - len(found.value) : -1]))


def _parse(text: bytes) -> Line:
    key = _decode_key(text)
    name = next((name for name in _KINDS if getattr(key, name) is not UNSET), None)
    if name is None:
        raise ValueError(f"none of the keys {', '.join(_KINDS)} is in it: this is not a line of an archive")
    found = msgspec.json.decode(text, type=_KINDS[name])
    if isinstance(found, ArchiveLine) and found.archive != VERSION:
        raise ValueError(f"the archive is of version {found.archive}, and this program reads version {VERSION}")
    if isinstance(found, _Message):
        return _message(found)
    if isinstance(found, _Snapshot):
        return SnapshotLine(_offset(found.snapshot), found.content_type, _bytes(found))
    line: Line = found
    return line


def _message(found: _Message) -> MessageLine:
    return MessageLine(int(_offset(found.offset)), found.time_ms, _bytes(found), found.value is not UNSET)


def _offset(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"an offset must be 16 digits, got {text!r}")
    return text


def _bytes(found: _Bytes) -> bytes:
    if found.value is not UNSET:
        return bytes(found.value)
    if found.text is not UNSET:
        return found.text.encode()
    if found.base64 is not UNSET:
        return binascii.a2b_base64(found.base64, strict_mode=True)
    raise ValueError("it must have the key value, text or base64")


def next_offset(line: MessageLine, stream: StreamLine) -> int:
    """Return the offset after a message. In a JSON stream a comma is stored after each message."""
    return line.offset + len(line.payload) + stream.json
