"""Reading: where a read begins and where its page ends (§5.6, §8)."""

from msgspec import Struct

from everbrook.protocol.errors import InvalidOffset
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.state import Head
from everbrook.protocol.view import Boundaries


class Page(Struct, frozen=True, gc=False):
    """A run of whole messages of a stream, as it was when `head` was its head."""

    head: Head
    start: int
    end: int

    @property
    def up_to_date(self) -> bool:
        """Whether the page reaches the tail (§5.6)."""
        return self.end == self.head.tail

    @property
    def final(self) -> bool:
        """Whether nothing can ever follow the page (§4.1)."""
        return self.head.closed and self.end == self.head.tail


def locate(head: Head, boundaries: Boundaries, offset: int | Sentinel) -> int:
    """Turn what a reader asked for into a position in the stream. Beyond the tail there is nothing: the tail."""
    if offset is Sentinel.BEGINNING:
        return 0
    if offset is Sentinel.NOW or offset >= head.tail:
        return head.tail
    if not boundaries.is_boundary(offset):
        raise InvalidOffset(f"offset {offset:016d} lies inside a message; use one that this server issued")
    return offset


def page_from(head: Head, boundaries: Boundaries, start: int, max_bytes: int) -> Page:
    """Cut the page that begins at `start`: whole messages, at most `max_bytes`, but never less than one."""
    if head.tail - start <= max_bytes:
        return Page(head, start, head.tail)
    end = boundaries.boundary_at_or_before(start + max_bytes)
    return Page(head, start, end if end > start else boundaries.boundary_after(start))
