"""Recent changes: those that are in the journal and not yet in the base, as a state in memory."""

from bisect import bisect_right
from collections.abc import Iterator

from everbrook.protocol.state import Drop, Edit, Head, Producer, Write
from everbrook.storage.message_index import Run
from everbrook.storage.sorted_names import SortedNames


class RecentStream:
    """The changes of one stream."""

    __slots__ = ("created", "forgotten", "head", "producers", "run")

    def __init__(self, head: Head, *, created: bool) -> None:
        self.head = head
        self.created = created
        self.run: Run | None = None
        self.producers: dict[bytes, Producer] = {}
        self.forgotten: set[bytes] = set()

    def write(self, write: Write) -> None:
        self.head = write.head
        for producer_id in write.forgotten:
            self.producers.pop(producer_id, None)
            self.forgotten.add(producer_id)
        if write.producer_id is not None and write.producer is not None:
            self.producers[write.producer_id] = write.producer
            self.forgotten.discard(write.producer_id)
        if not write.data:
            return
        if self.run is None:
            self.run = Run(write.head.tail - len(write.data), batched=write.head.identity.json)
        self.run.append(write.data, write.ends, write.head.written_at)


class Recent:
    """All changes since some point of the journal."""

    def __init__(self) -> None:
        self.names: dict[bytes, int | None] = {}
        self.order = SortedNames(self.names.keys())
        self.streams: dict[int, RecentStream] = {}
        self._mortal: list[int] = []
        self._mortal_sorted = True
        self.dropped: dict[int, Head] = {}
        # Forks by their sources. Dictionaries keep the order of insertion, so the oldest fork comes first.
        self.forked: dict[int, dict[int, None]] = {}
        self.unforked: dict[int, set[int]] = {}
        self.floors: dict[int, int] = {}
        """The floors of streams: before them, no stream or fork needs the bytes in the base."""
        self.discardable_bytes = 0
        """About how many bytes in the base lie before the floors and are not being removed yet."""

    def apply(self, edit: Edit) -> None:
        if isinstance(edit, Write):
            self.write(edit)
        else:
            self.drop(edit)

    def _name(self, name: bytes, incarnation: int | None) -> None:
        if name not in self.names:
            self.order.add(name)
        self.names[name] = incarnation

    def named(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int | None]]:
        """Return names that begin with `prefix` and follow `after`, with their incarnations; None for a free name."""
        return ((name, self.names[name]) for name in self.order.following(prefix, after))

    def write(self, write: Write) -> None:
        identity = write.head.identity
        if write.created:
            self._name(identity.name, identity.incarnation)
            if identity.fork:
                self.forked.setdefault(identity.fork.source_incarnation, {})[identity.incarnation] = None
        stream = self.streams.get(identity.incarnation)
        if stream is None:
            stream = self.streams[identity.incarnation] = RecentStream(write.head, created=write.created)
            if identity.mortal:
                self._mortal_sorted = False
                self._mortal.append(identity.incarnation)
        stream.write(write)

    def mortal(self, after: int) -> Iterator[int]:
        """Return the streams with a lifetime or a retention policy that follow `after`, in order."""
        if not self._mortal_sorted:
            self._mortal.sort()
            self._mortal_sorted = True
        following = range(bisect_right(self._mortal, after), len(self._mortal))
        return (incarnation for place in following if (incarnation := self._mortal[place]) in self.streams)

    def drop(self, drop: Drop) -> None:
        identity = drop.head.identity
        stream = self.streams.pop(identity.incarnation, None)
        # A stream that was created in this layer is in no older one, so nothing is left to drop.
        if stream is None or not stream.created:
            self.dropped[identity.incarnation] = drop.head
        if self.names.get(identity.name, identity.incarnation) == identity.incarnation:
            self._name(identity.name, None)
        if identity.fork:
            source = identity.fork.source_incarnation
            self.forked.get(source, {}).pop(identity.incarnation, None)
            self.unforked.setdefault(source, set()).add(identity.incarnation)
        self.floors.pop(identity.incarnation, None)

    def discard(self, incarnation: int, floor: int, discardable_bytes: int) -> None:
        """Free the bytes of a stream before a floor in memory, and note the floor for the base."""
        run = self.run(incarnation)
        if run:
            run.discard(floor)
        if discardable_bytes and self.floors.get(incarnation, 0) < floor:
            self.floors[incarnation] = floor
            self.discardable_bytes += discardable_bytes

    def run(self, incarnation: int) -> Run | None:
        """Return the recent bytes of a stream, if it has any."""
        stream = self.streams.get(incarnation)
        return stream.run if stream else None
