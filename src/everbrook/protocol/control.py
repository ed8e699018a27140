"""Control events: where a live read stands (§5.8). They are all that a reader needs of what a server encodes."""

from msgspec import Struct


class Control(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a control event tells a reader."""

    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False
    data_altered: bool = False
    """Whether the data before it is not what is stored, byte for byte: events turn the CRs of a text into LFs."""
