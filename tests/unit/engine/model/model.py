"""The model: every stream is a list of appends, each a list of messages, and a fork is a copy of its source's list.

There is no index, no lineage, no storage and nothing on its way; each change is a new dictionary of streams, so what
was true after any change can be looked up. It raises what the engine should raise.
"""

from collections import Counter

from msgspec.structs import replace

from everbrook.protocol import Claim, bucket_of, bucket_record
from everbrook.protocol.errors import (
    BucketNotFound,
    EmptyAppend,
    EpochMustStartAtZero,
    InvalidHeader,
    NotFound,
    PathBlocked,
    ProtocolError,
    SequenceGap,
    SequenceRegression,
    SnapshotBeyondFork,
    SourceDeleted,
    SourceNotFound,
    StaleEpoch,
    StreamClosed,
    StreamExists,
    StreamGone,
    StreamNotFound,
    TailMoved,
)
from tests.unit.engine.model.model_stream import Messages, ModelStream

Streams = dict[bytes, ModelStream]

BASE = ModelStream(b"", 0, json=False)


class Model:
    """The streams of a server after each change, and when each was touched, which no change records."""

    def __init__(self) -> None:
        self.history: list[Streams] = [{}]
        self.touched: dict[int, int] = {}
        self.followers: Counter[int] = Counter()
        self.failed = False

    @property
    def newest(self) -> Streams:
        return self.history[-1]

    def _without(self, gone: list[ModelStream]) -> Streams:
        return {name: stream for name, stream in self.newest.items() if stream not in gone}

    def _put(self, stream: ModelStream, now: int, gone: list[ModelStream]) -> None:
        self.history.append({**self._without(gone), stream.name: stream})
        self.touched[stream.incarnation] = now

    # What holds at a moment

    @staticmethod
    def forks(streams: Streams, stream: ModelStream) -> int:
        return sum(other.source == stream.incarnation for other in streams.values())

    def deadline(self, stream: ModelStream) -> int | None:
        if stream.ttl_secs is not None:
            return self.touched[stream.incarnation] + stream.ttl_secs * 1000
        return stream.expires_at

    def ended(self, stream: ModelStream, now: int) -> bool:
        """A stream ends when it is deleted or its time has run out; a sliding one never while it is followed (§5.1)."""
        if stream.deleted:
            return True
        if stream.ttl_secs is not None and self.followers[stream.incarnation]:
            return False
        end = self.deadline(stream)
        return end is not None and end <= now

    def find(self, streams: Streams, name: bytes, now: int) -> ModelStream:
        stream = streams.get(name)
        if stream is None:
            raise self.missing(name)
        if self.ended(stream, now):
            raise StreamGone("ended") if self.forks(streams, stream) else StreamNotFound("ended")
        return stream

    def missing(self, name: bytes) -> NotFound:
        return BucketNotFound("missing") if self.bucket(name) is None else StreamNotFound("missing")

    def bucket(self, name: bytes) -> ModelStream | None:
        """Give the bucket that a name is in; the base surface is as one that is always there."""
        bucket_id = bucket_of(name)
        return BASE if bucket_id is None else self.newest.get(bucket_record(bucket_id))

    # Creating

    def create(self, wanted: ModelStream, now: int) -> str:
        """Create a stream as `wanted`, or find it."""
        present, bucket = self.newest.get(wanted.name), self.bucket(wanted.name)
        gone = [] if present is None or not self.ended(present, now) else self._clear(wanted.name)
        if bucket is None:
            raise BucketNotFound("missing")
        wanted = replace(wanted, retention=wanted.retention or bucket.retention)
        if present and not self.ended(present, now):
            if present.source is not None or _configuration(present) != _configuration(wanted):
                raise StreamExists("different")
            return "Existing"
        self._put(wanted, now, gone)
        return "Created"

    def fork(self, wanted: ModelStream, source: bytes, anchor: int | None, sub_offset: int, now: int) -> str:
        """Create a fork under a name where nothing lives."""
        gone = self._clear(wanted.name)
        if self.bucket(wanted.name) is None:
            raise BucketNotFound("missing")
        if bucket_of(wanted.name) != bucket_of(source):
            raise InvalidHeader("another bucket")
        try:
            origin = self.find(self.newest, source, now)
        except StreamNotFound:
            raise SourceNotFound("missing") from None
        except StreamGone:
            raise SourceDeleted("deleted") from None
        offset = origin.divergence(anchor, sub_offset)
        if wanted.ttl_secs is None and wanted.expires_at is None:
            wanted = replace(wanted, ttl_secs=origin.ttl_secs, expires_at=origin.expires_at)
        self._put(_fork(wanted, origin, offset), now, gone)
        return "Created"

    def _clear(self, name: bytes) -> list[ModelStream]:
        """Give what goes when a name whose stream has ended is taken again."""
        present = self.newest.get(name)
        if present is None:
            return []
        if self.forks(self.newest, present):
            raise PathBlocked("forks live")
        return self._chain(present)

    # Appending

    def append(
        self,
        name: bytes,
        body: Messages | None,
        claim: Claim | None,
        seq: bytes | None,
        now: int,
        *,
        close: bool,
        expected_tail: int | None = None,
    ) -> str:
        """Append messages, close, or both. An empty body is not the same as none."""
        stream = self.find(self.newest, name, now)
        if stream.closed:
            outcome = _append_to_closed(stream, body, claim)
            self.touched[stream.incarnation] = now
            return outcome
        repeated = claim is not None and _is_duplicate(stream, claim)
        if repeated and body is not None:
            self.touched[stream.incarnation] = now
            return "Duplicate"
        if seq is not None and stream.stream_seq is not None and seq <= stream.stream_seq:
            raise SequenceRegression("not greater")
        if body == ():
            raise EmptyAppend("an empty array")
        if expected_tail is not None and expected_tail != stream.tail:
            raise TailMoved("moved")
        changed = replace(
            stream,
            appends=(*stream.appends, body) if body else stream.appends,
            times=(*stream.times, now) if body else stream.times,
            closed=close,
            closed_by=claim if close else None,
            stream_seq=stream.stream_seq if seq is None else seq,
        )
        if claim and not repeated:
            producers = {**stream.producers, claim.producer_id: (claim.epoch, claim.seq)}
            changed = replace(changed, producers=producers)
        self._put(changed, now, [])
        return "Appended" if body else "Closed"

    # Ending

    def delete(self, name: bytes, now: int) -> str:
        self._end(self.find(self.newest, name, now))
        return "Deleted"

    def _end(self, stream: ModelStream) -> None:
        if self.forks(self.newest, stream):
            self.history.append({**self.newest, stream.name: replace(stream, deleted=True)})
        else:
            self.history.append(self._without(self._chain(stream)))

    def _chain(self, stream: ModelStream) -> list[ModelStream]:
        """Give a stream and the soft-deleted sources that only it has kept."""
        chain = [stream]
        sources = {other.incarnation: other for other in self.newest.values()}
        while (above := sources.get(chain[-1].source or 0)) and above.deleted and self.forks(self.newest, above) == 1:
            chain.append(above)
        return chain

    def sweep(self, now: int) -> None:
        """End the streams whose time has run out. One that slides and is followed begins anew."""
        for end, stream in self._deadlines():
            if end <= now and stream.ttl_secs is not None and self.followers[stream.incarnation]:
                self.touched[stream.incarnation] = now
            elif end <= now and not self.failed:
                self._end(self.newest[stream.name])

    def _deadlines(self) -> list[tuple[int, ModelStream]]:
        """Give what can expire, the first to do so first."""
        living = [stream for stream in self.newest.values() if not stream.deleted]
        ends = [(end, stream) for stream in living if (end := self.deadline(stream)) is not None]
        return sorted(ends, key=lambda place: (place[0], place[1].incarnation))

    def next_deadline(self, now: int) -> int | None:
        """Give the next moment after `now` at which a stream may expire."""
        return next((end for end, _ in self._deadlines() if end > now), None)

    def roll_back(self, durable: int, last: int) -> None:
        """Undo everything after a change. The numbers up to `last` are used up."""
        self.history[durable + 1 :] = [self.history[durable]] * (last - durable)

    def how_it_ended(self, incarnation: int, since: int, until: int) -> type[ProtocolError] | None:
        """Tell what a reader learns that joined after change `since`, when change `until` is durable."""
        for streams in self.history[since : until + 1]:
            stream = next((stream for stream in streams.values() if stream.incarnation == incarnation), None)
            if stream is None:
                return StreamNotFound
            if stream.deleted:
                return StreamGone
        return None


def _configuration(stream: ModelStream) -> tuple[object, ...]:
    return stream.json, stream.ttl_secs, stream.expires_at, stream.closed, stream.retention


def _fork(wanted: ModelStream, origin: ModelStream, offset: int) -> ModelStream:
    """Give a fork: a copy of what its source has before an offset, then its own."""
    snapshot = origin.snapshot if origin.snapshot and origin.snapshot.offset <= offset else None
    if origin.snapshot and snapshot is None and origin.earliest:
        raise SnapshotBeyondFork("covers too much")
    appends, times = origin.before(offset)
    return replace(
        wanted,
        json=origin.json,
        source=origin.incarnation,
        appends=appends + wanted.appends,
        times=times + wanted.times,
        retention=wanted.retention or origin.retention,
        earliest=origin.earliest,
        snapshot=snapshot,
        first_snapshot=snapshot,
    )


def _append_to_closed(stream: ModelStream, body: Messages | None, claim: Claim | None) -> str:
    known = stream.producers.get(claim.producer_id) if claim else None
    if claim and known and claim.epoch < known[0]:
        raise StaleEpoch("fenced")
    if claim and known and claim == stream.closed_by:
        return "Duplicate"
    if body is not None:
        raise StreamClosed("closed")
    return "Closed"


def _is_duplicate(stream: ModelStream, claim: Claim) -> bool:
    """Tell whether a claim repeats what was accepted, or raise why it is not next either (§5.2.1)."""
    epoch, seq = stream.producers.get(claim.producer_id, (claim.epoch, -1))
    if claim.epoch < epoch:
        raise StaleEpoch("fenced")
    if claim.epoch > epoch:
        if claim.seq:
            raise EpochMustStartAtZero("a new epoch")
        return False
    if claim.seq > seq + 1:
        raise SequenceGap("too far")
    return claim.seq <= seq
