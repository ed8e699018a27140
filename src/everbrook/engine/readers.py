"""Reads of durable data: page by page for readers that catch up, in batches for readers that wait at the tail."""

from collections.abc import Iterator

from everbrook.engine.blobs import OpenBlobs
from everbrook.engine.clock import Clock
from everbrook.engine.faults import Faults
from everbrook.engine.feed import Batch, Feed, Reader
from everbrook.engine.limits import Limits
from everbrook.engine.stream import Stream
from everbrook.engine.streams import Streams
from everbrook.engine.tuning import FeedTuning
from everbrook.protocol.errors import StreamDamaged, StreamNotFound, quoted
from everbrook.protocol.lifetime import end_error, ended, missing
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.query import ReadQuery
from everbrook.protocol.read import Page, begin, end_of_read, locate, look_up, page_from, require_kept
from everbrook.protocol.state import Snapshot
from everbrook.storage.api import BlobReader, Storage
from everbrook.storage.damage import Damaged, DamageMark
from everbrook.storage.message_index import Messages

# A page has bytes of at most so many streams of a chain of forks, because the bytes of each are a read of their own.
MAX_PAGE_PARTS = 64


class Readers:
    """Finds streams, and reads their durable data. Pending changes are not visible here."""

    def __init__(
        self, storage: Storage, clock: Clock, limits: Limits, streams: Streams, faults: Faults, tuning: FeedTuning
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._streams = streams
        self._faults = faults
        self._batch_messages = tuning.batch_messages
        self.batch_bytes = min(limits.max_page_bytes, tuning.batch_bytes)
        self.in_memory = streams.visible_in_memory
        """Returns a stream by its name, if it is in memory and has a durable state."""
        self.open_blobs = OpenBlobs(storage.blobs, limits.max_open_blobs)

    def find(self, name: bytes, now: int) -> Stream:
        """Return a stream that has not ended, to look at its durable state. This does not count as a use of it."""
        stream = self._streams.visible(name)
        if stream is None:
            raise missing(self._streams, name)
        if ended(stream.committed, stream, now):
            raise end_error(stream.committed, stream)
        return stream

    def open(self, name: bytes, now: int) -> Stream:
        """Return a stream to read from it, which renews its TTL (§5.1)."""
        stream = self.find(name, now)
        stream.touched_at = now
        return stream

    def current(self, stream: Stream) -> Stream:
        """Return the present object of a stream that was found earlier: it may have been evicted and loaded again."""
        if stream.resident:
            return stream
        identity = stream.committed.identity
        again = self.find(identity.name, self._clock.now())
        if again.committed.identity.incarnation != identity.incarnation:
            raise StreamNotFound(f"the stream at {quoted(identity.name)} was deleted")
        return again

    def page(
        self, stream: Stream, offset: int | Sentinel, until: int | None = None, max_bytes: int | None = None
    ) -> Page:
        """Cut the page of a stream that begins at `offset` and does not go beyond `until`.

        It has at most `max_bytes`, by default `batch_bytes`; a message that is larger is a page by itself.
        """
        if stream.ended:
            raise stream.ended.with_traceback(None)
        head, lineage = stream.committed, stream.lineage
        start = locate(head, lineage, offset)
        if until is not None:
            until = end_of_read(head, lineage, start, until)
        if lineage.depth > MAX_PAGE_PARTS:
            until = min(head.tail if until is None else until, lineage.end_of_parts(start, MAX_PAGE_PARTS))
        if stream.damage:
            until = self._readable_end(stream, stream.damage, start, until)
        return page_from(head, lineage, start, max_bytes or self.batch_bytes, until)

    def _readable_end(self, stream: Stream, damage: DamageMark, start: int, until: int | None) -> int | None:
        """End a page before the damage of its stream. No reader waits at a damaged tail, which gets no more data."""
        head = stream.committed
        if start < damage.offset:
            end = stream.lineage.boundary_at_or_before(min(damage.offset, head.tail))
            if end > start:
                return end if until is None else min(until, end)
        elif start < head.tail or head.closed or head.identity.incarnation not in self._streams.damaged:
            # Bytes behind the damage may be readable. The read verifies what it returns, so it may try.
            return until
        raise StreamDamaged(f"the stream is damaged from offset {damage.offset:016d} on: {damage.reason}")

    def begin(self, stream: Stream, query: ReadQuery) -> int:
        """Return the offset at which the read of a query begins."""
        return begin(stream.committed, stream.lineage, query)

    def look_up(self, stream: Stream, query: ReadQuery) -> int:
        """Return the offset that a query without a read (`HEAD`) asks for."""
        return look_up(stream.committed, stream.lineage, query)

    def messages(self, stream: Stream, page: Page) -> Messages:
        """Return the ends of the messages of a page, and the times at which they were appended."""
        return stream.lineage.messages(page.start, page.end)

    def read(self, stream: Stream, page: Page) -> bytes:
        """Return the stored bytes of a page."""
        if page.start == page.end:
            return b""
        try:
            return stream.lineage.read(page.start, page.end)
        except Damaged as error:
            stream.damage = stream.damage or error.mark
            self._streams.note_damage(stream, error)
            raise

    def read_part(self, stream: Stream, start: int, end: int) -> bytes:
        """Return the stored bytes of a part of a page that was cut before, if the stream still retains all of it."""
        stream = self.current(stream)
        if stream.ended:
            raise stream.ended.with_traceback(None)
        require_kept(stream.committed, start)
        return self.read(stream, Page(stream.committed, start, end))

    def live_page(self, stream: Stream, offset: int) -> Page:
        """Cut the page that live readers at an offset get."""
        return self._cut_batch(stream, self.page(stream, offset))

    def _cut_batch(self, stream: Stream, page: Page) -> Page:
        """Bound the messages of a page of text or bytes, because each becomes an event of its own."""
        most = self._batch_messages
        if page.end - page.start <= most or page.head.identity.json:
            return page
        end = stream.lineage.seek(page.start, most, page.end)
        return page if end == page.end else Page(page.head, page.start, end)

    def batch(self, stream: Stream, page: Page) -> Batch:
        """Return a page with its bytes, for live readers."""
        stored, now = self.read(stream, page), self._clock.now()
        if not stored or page.head.identity.json:
            return Batch(page, stored, now)
        return Batch(page, stored, now, self.messages(stream, page).ends)

    def read_all(self, name: bytes) -> Iterator[bytes]:
        """Yield all retained bytes of a stream, page by page; nothing if the stream does not exist.

        Raises `StreamDamaged` if a part of them is lost.
        """
        stream = self._streams.visible(name)
        if stream is None:
            return
        offset = stream.committed.kept.earliest
        while offset < stream.committed.tail:
            page = self.page(stream, offset)
            yield unpack(page.head.identity, self.read(stream, page))
            offset = page.end
        if stream.damage:
            # The lost bytes may be the last ones, behind the tail that can be read: this raises the error for them.
            self.page(stream, offset)

    def size_of(self, name: bytes) -> int:
        """Return how many bytes a stream retains."""
        stream = self._streams.visible(name)
        return stream.committed.tail - stream.committed.kept.earliest if stream else 0

    def open_blob(self, stream: Stream, snapshot: Snapshot) -> BlobReader:
        """Begin to read the bytes of a snapshot of a stream. Raises `Unavailable` if too many blobs are open."""
        return self.open_blobs.open(snapshot, lambda damage: self._lose_snapshot(stream, snapshot, damage))

    def _lose_snapshot(self, stream: Stream, snapshot: Snapshot, damage: Damaged) -> None:
        """Mark a stream whose snapshot is damaged. All of its own bytes remain readable."""
        head = stream.committed
        if stream.ended or head.kept.snapshot != snapshot:
            return
        mark = DamageMark(head.tail, damage.mark.reason)
        self._storage.mark(head.identity.incarnation, mark)
        stream.damage = stream.damage or mark
        self._streams.damaged.add(head.identity.incarnation)

    # Live readers

    def join(self, stream: Stream, reader: Reader) -> None:
        """Add a live reader that has everything up to the committed tail."""
        feed = stream.feed
        if feed is None:
            feed = Feed(lambda position: self._next_batch(stream, position), self._faults)
        feed.join(reader, stream.committed.tail)
        stream.feed = feed

    def leave(self, stream: Stream, reader: Reader) -> None:
        """Remove a live reader."""
        if stream.feed:
            stream.feed.leave(reader)
            if not stream.feed:
                # A live read counts as a use of the stream until its end (§5.1).
                stream.feed = None
                stream.touched_at = max(stream.touched_at, self._clock.now())

    def _next_batch(self, stream: Stream, position: int) -> Batch | None:
        head = stream.committed
        if position == head.tail and not head.closed:
            return None
        page = page_from(head, stream.lineage, position, self.batch_bytes)
        return self.batch(stream, self._cut_batch(stream, page))
