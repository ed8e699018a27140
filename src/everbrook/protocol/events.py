"""The events of a live read: the data of a page, then the control event that says where the reader stands (§5.8)."""

import msgspec

from everbrook.protocol.content_type import carried_as_text
from everbrook.protocol.control import Control
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import format_offset
from everbrook.protocol.reading import Page
from everbrook.protocol.sse import Event, encode_base64, encode_event

_json = msgspec.json.Encoder()


def encode_page(page: Page, stored: bytes, cursor: int) -> bytes:
    """Write a page as its data event, unless it is empty, and its control event."""
    position = format_offset(page.end)
    payload = _payload(page, stored) if stored else b""
    altered = b"\r" in payload and not page.head.identity.json
    control = encode_event(Event(b"control", _json.encode(control_for(page, cursor, altered=altered)), position))
    return encode_event(Event(b"data", payload, position)) + control if stored else control


def control_for(page: Page, cursor: int, *, altered: bool = False) -> Control:
    """Describe the position after a page. A closed stream needs no cursor: nobody comes back to it."""
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
