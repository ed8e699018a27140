"""The events of a live read: data events, each followed by the control event with the reader's offset (§5.8).

Each message of text or bytes has its own data event, because the bytes alone do not show where it ends. The JSON
messages of a page share one data event, an array.
"""

from collections.abc import Sequence

import msgspec

from everbrook.protocol.content_type import carried_as_text
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import format_offset
from everbrook.protocol.read import Page
from everbrook.protocol.sse import Control, Event, encode_base64, encode_event

_json = msgspec.json.Encoder()

# Placeholders of a template that is filled in for each message: its bytes, and an offset as `format_offset` writes it.
_BYTES, _OFFSET = b"%b", b"%016d"


def encode_page(page: Page, stored: bytes, cursor: int, ends: Sequence[int] = ()) -> bytes:
    """Encode a page as its data events, none if it is empty, each followed by its control event.

    `ends` are the offsets at which the messages of the page end; they are needed if each message has its own event.
    """
    if len(ends) <= 1:
        return _last_events(page, stored, cursor)
    begun = ends[-2]
    before = _encode_messages(page, stored, cursor, ends)
    return before + _last_events(page, stored[begun - page.start :], cursor)


def _encode_messages(page: Page, stored: bytes, cursor: int, ends: Sequence[int]) -> bytes:
    """Encode the messages of a page except the last one, each as its own events."""
    text = carried_as_text(page.head.identity.media_type)
    template = encode_event(Event(b"data", _BYTES, _OFFSET)) + _control_before(_OFFSET, cursor, altered=False)
    parts: list[bytes] = []
    start, first = page.start, page.start
    for end in ends[:-1]:
        message = stored[start - first : end - first]
        if not text:
            parts.append(template % (encode_base64(message), end, end, end))
        elif b"\n" in message or b"\r" in message or message.startswith(b" "):
            position = format_offset(end)
            parts.append(encode_event(Event(b"data", message, position)))
            parts.append(_control_before(position, cursor, altered=b"\r" in message))
        else:
            # Without line ends and a leading space nothing needs escaping, and the template is several times faster.
            parts.append(template % (message, end, end, end))
        start = end
    return b"".join(parts)


def _control_before(position: bytes, cursor: int, *, altered: bool) -> bytes:
    """Encode the control event of a message that is not the last one of its page."""
    control = Control(stream_next_offset=position.decode(), stream_cursor=str(cursor), data_altered=altered)
    return encode_event(Event(b"control", _json.encode(control), position))


def _last_events(page: Page, stored: bytes, cursor: int) -> bytes:
    """Encode the last data event of a page, if it has bytes, and the control event with the offset behind it."""
    position = format_offset(page.end)
    payload = _payload(page, stored) if stored else b""
    altered = b"\r" in payload and not page.head.identity.json
    control = encode_event(Event(b"control", _json.encode(control_for(page, cursor, altered=altered)), position))
    return encode_event(Event(b"data", payload, position)) + control if stored else control


def control_for(page: Page, cursor: int, *, altered: bool = False) -> Control:
    """Return the control data after a page. A closed stream needs no cursor, because its readers do not return."""
    return Control(
        stream_next_offset=format_offset(page.end).decode(),
        stream_cursor=None if page.final else str(cursor),
        up_to_date=page.up_to_date,
        stream_closed=page.final,
        data_altered=altered,
    )


def _payload(page: Page, stored: bytes) -> bytes:
    identity = page.head.identity
    body = unpack(identity, stored)
    return body if carried_as_text(identity.media_type) else encode_base64(body)
