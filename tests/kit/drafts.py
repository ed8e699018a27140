"""Drafts: streams as the deciding side sees them, from which the edits come that a storage is given."""

from hashlib import sha256
from itertools import accumulate
from typing import Self

from msgspec.structs import replace

from everbrook.protocol import JSON, Drop, Fork, Head, Identity, Kept, Producer, Snapshot, Write

NOW = 1_800_000_000_000
TEXT = b"text/plain"


class Draft:
    """One incarnation of a stream. Each edit carries its head on, and it remembers what a storage should give back."""

    def __init__(
        self,
        name: bytes,
        incarnation: int,
        *,
        json: bool = False,
        source: Self | None = None,
        offset: int = 0,
        ttl_secs: int | None = None,
        expires_at: int | None = None,
    ) -> None:
        self.name: bytes = name
        self.incarnation: int = incarnation
        media_type = JSON if json else TEXT
        fork = Fork(source.name, source.incarnation, offset, kept=source.head.kept) if source else None
        content_type = media_type + b"; charset=utf-8"
        identity = Identity(name, incarnation, content_type, media_type, NOW, ttl_secs, expires_at, fork)
        self.first = identity.first_own_offset
        self.head: Head = Head(identity, self.first, NOW, kept=identity.first_kept)
        self.data = b""
        self._created = False
        self.boundaries = [self.first]
        self.append_ends: list[int] = []
        self.times: list[int] = []
        self.producers: dict[bytes, Producer] = {}

    def write(
        self,
        *messages: bytes,
        producer: tuple[bytes, Producer] | None = None,
        forgotten: tuple[bytes, ...] = (),
        closed: bool = False,
        deleted: bool = False,
    ) -> Write:
        """Append messages together, or change only what stands beside them."""
        ends = tuple(accumulate(map(len, messages), initial=self.head.tail))[1:]
        data = b"".join(messages)
        tail = self.head.tail + len(data)
        self.head = replace(self.head, tail=tail, closed=closed, deleted=deleted, written_at=self.head.written_at + 1)
        self.data += data
        self.boundaries.extend(ends)
        self.append_ends.extend(ends[-1:])
        self.times.extend([self.head.written_at] * len(ends))
        for producer_id in forgotten:
            self.producers.pop(producer_id, None)
        if producer:
            self.producers.update([producer])
        writer, state = producer or (None, None)
        created, self._created = not self._created, True
        return Write(self.head, data, ends, writer, state, forgotten, created)

    def cut(self, earliest: int, *, blob: int = 0, content: bytes = b"", snapshot_at: int | None = None) -> Write:
        """Publish a snapshot, of which the bytes are a blob if it is not automatic, and retain what is from it on."""
        offset = earliest if snapshot_at is None else snapshot_at
        digest, owner = sha256(content).digest(), self.incarnation if blob else 0
        snapshot = Snapshot(offset, NOW, b"text/x-sum", len(content), digest, owner, blob)
        self.head = replace(self.head, kept=Kept(earliest, snapshot))
        created, self._created = not self._created, True
        return Write(self.head, created=created, cut=True)

    def drop(self) -> Drop:
        """End the stream."""
        return Drop(self.head)
