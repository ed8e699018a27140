"""A stream of the model: a list of appends, each a list of messages. Nothing is ever cut from it, only forbidden."""

from collections.abc import Iterator
from itertools import accumulate

from msgspec import Struct

from everbrook.protocol import Claim, Retention
from everbrook.protocol.errors import InvalidHeader, InvalidOffset, OffsetGone

Messages = tuple[bytes, ...]


class ModelSnapshot(Struct, frozen=True):
    """A snapshot: where, which blob, and what it holds. One without a blob was a policy's."""

    offset: int
    blob: tuple[int, int] | None = None
    body: bytes = b""


class ModelStream(Struct, frozen=True):
    """A stream at one moment, with all its messages, inherited ones too."""

    name: bytes
    incarnation: int
    json: bool
    ttl_secs: int | None = None
    expires_at: int | None = None
    source: int | None = None
    appends: tuple[Messages, ...] = ()
    closed: bool = False
    closed_by: Claim | None = None
    stream_seq: bytes | None = None
    producers: dict[bytes, tuple[int, int]] = {}
    deleted: bool = False
    times: tuple[int, ...] = ()
    retention: Retention | None = None
    earliest: int = 0
    snapshot: ModelSnapshot | None = None
    first_snapshot: ModelSnapshot | None = None

    @property
    def mortal(self) -> bool:
        ages = self.retention is not None and self.retention.max_age_secs is not None
        return self.ttl_secs is not None or self.expires_at is not None or ages

    @property
    def content(self) -> bytes:
        return b"".join(message for append in self.appends for message in append)

    @property
    def tail(self) -> int:
        return len(self.content)

    @property
    def boundaries(self) -> list[int]:
        return list(accumulate((len(message) for append in self.appends for message in append), initial=0))

    @property
    def messages(self) -> list[tuple[int, int, int]]:
        """Give where each message begins and ends, and when it came."""
        times = [time for append, time in zip(self.appends, self.times, strict=True) for _ in append]
        boundaries = self.boundaries
        return list(zip(boundaries, boundaries[1:], times, strict=False))

    @property
    def retained(self) -> list[tuple[int, int, int]]:
        return [message for message in self.messages if message[0] >= self.earliest]

    def require_kept(self, offset: int) -> None:
        if offset < self.earliest:
            raise OffsetGone("cut")

    def before(self, offset: int) -> tuple[tuple[Messages, ...], tuple[int, ...]]:
        """Give the appends before an offset, which may fall into a message, and when they came."""
        pairs = zip(self._cut_appends(offset), self.times, strict=True)
        kept = [(append, time) for append, time in pairs if append]
        return tuple(append for append, _ in kept), tuple(time for _, time in kept)

    def _cut_appends(self, rest: int) -> Iterator[Messages]:
        for append in self.appends:
            kept = []
            for message in append:
                kept.append(message[:rest])
                rest = max(0, rest - len(message))
            yield tuple(filter(None, kept))

    def divergence(self, anchor: int | None, sub_offset: int) -> int:
        """Give the point at which a fork branches off (§4.2)."""
        if anchor is None:
            anchor = self.tail
        if anchor <= self.tail:
            self.require_kept(anchor)
        if anchor not in self.boundaries:
            raise InvalidOffset("not a boundary")
        if not sub_offset:
            return anchor
        end = 0
        for append in self.appends:
            start, end = end, end + len(b"".join(append))
            if anchor < end:
                return anchor + self._skipped(append, anchor - start, sub_offset)
        raise InvalidHeader("nothing follows the anchor")

    def _skipped(self, append: Messages, start: int, sub_offset: int) -> int:
        """Tell how many bytes a sub-offset skips in the append whose byte `start` the anchor is at."""
        if self.json:
            boundaries = list(accumulate(map(len, append), initial=0))
        else:
            boundaries = list(range(len(b"".join(append)) + 1))
        reached = boundaries[boundaries.index(start) :]
        if sub_offset >= len(reached):
            raise InvalidHeader("too far")
        return reached[sub_offset] - start
