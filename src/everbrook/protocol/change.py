"""Changes: what a decision makes durable, entirely or not at all.

A change is a tuple of edits over one or several streams. Fork entries follow from the edits: writing the first head
of a fork enters it under its source, dropping it takes the entry out.
"""

from collections.abc import Sequence

from msgspec import Struct

from everbrook.protocol.state import Head, Producer


class Write(Struct, frozen=True, gc=False):
    """The stream's head becomes `head`, and `data` is appended to its bytes.

    `ends` are the offsets at which the messages in `data` end, the last being the new tail. `forgotten` are the
    producers whose state is not kept any longer. The first write of an incarnation has `created` set, one that changes
    what the stream keeps of its past has `cut`.
    """

    head: Head
    data: bytes = b""
    ends: Sequence[int] = ()
    producer_id: bytes | None = None
    producer: Producer | None = None
    forgotten: tuple[bytes, ...] = ()
    created: bool = False
    cut: bool = False


class Drop(Struct, frozen=True, gc=False):
    """The stream and its bytes are gone, and its name is free."""

    head: Head


Edit = Write | Drop
Change = tuple[Edit, ...]
