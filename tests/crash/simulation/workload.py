"""Random commands: everything that a client can ask for, on a few names, so that they meet."""

from random import Random

from everbrook.protocol import (
    Append,
    Claim,
    Command,
    Create,
    CreateBucket,
    Delete,
    DeleteBucket,
    DeleteSnapshot,
    Expire,
    ForkFrom,
    PublishSnapshot,
    Retain,
    Retention,
    Trim,
    bucket_of,
    bucket_prefix,
    bucket_record,
)
from tests.kit.views import KeptStream, Streams

STREAMS = (b"a", b"b", b"c", b"/d/e", b"n" * 400, b"/ds/logs/x", b"/ds/logs/y", b"/ds/none/x")
BUCKETS = (b"logs", b"none")
NAMES = (*STREAMS, *map(bucket_record, BUCKETS))
PREFIXES = (b"a", b"/", bucket_prefix(BUCKETS[0]), b"bucket/")
PRODUCERS = (b"p", b"q", b"r" * 256)
TYPES = (b"text/plain", b"application/json", b"application/octet-stream")
POLICIES = (
    Retention(max_messages=2),
    Retention(max_bytes=400),
    Retention(max_age_secs=2),
    Retention(max_age_secs=5, max_bytes=5000, max_messages=20),
)
SAME = 0.3
LARGE_BYTES = 140_000
WEEK_MS = 8 * 86_400_000


class Workload:
    """Draws commands that mostly make sense for the streams as they are."""

    def __init__(self, chance: Random, now: int) -> None:
        self._chance = chance
        self._name = STREAMS[0]
        self.now = now

    def next(self, streams: Streams, incarnation: int) -> Command:
        """Draw a command, a little later than the one before. A snapshot that is to be published has no blob yet."""
        chance = self._chance
        self.now += WEEK_MS if chance.random() < 0.005 else chance.choice((0, 1, 1, 200, 1500))
        name = self._name = self._name if chance.random() < SAME else chance.choice(STREAMS)
        stream = streams.kept.get(name)
        bucket_id = bucket_of(name)
        draw = chance.random()
        if bucket_id and (draw < 0.1 or bucket_record(bucket_id) not in streams.kept):
            return self._bucket(bucket_id, streams, incarnation)
        if stream is None or draw < 0.08:
            return self._create(name, streams, incarnation)
        if draw < 0.2:
            return Delete(name, self.now) if chance.random() < 0.6 else Expire(name, self.now)
        return self._keep(name, stream) if draw < 0.4 else self._append(name, stream)

    def _bucket(self, bucket_id: bytes, streams: Streams, incarnation: int) -> Command:
        if bucket_record(bucket_id) in streams.kept:
            return DeleteBucket(bucket_id, self.now)
        return CreateBucket(bucket_id, self.now, incarnation, self._policy(0.5))

    def _policy(self, likelihood: float) -> Retention | None:
        return self._chance.choice(POLICIES) if self._chance.random() < likelihood else None

    def _create(self, name: bytes, streams: Streams, incarnation: int) -> Create:
        chance = self._chance
        ttl_secs = chance.choice((None, None, None, None, 1, 100_000))
        retention = self._policy(0.2)
        neighbours = [other for other in STREAMS if other != name and bucket_of(other) == bucket_of(name)]
        others = [other for other in neighbours if other in streams.kept]
        cut = [other for other in others if streams.kept[other].head.kept.earliest]
        if others and chance.random() < (0.8 if cut else 0.4):
            source = chance.choice(cut or others)
            fork = self._fork(source, streams.kept[source])
            body = b"" if chance.random() < 0.7 else self._body(streams.kept[source].head.identity.content_type)
            return Create(name, self.now, incarnation, body=body, ttl_secs=ttl_secs, fork=fork, retention=retention)
        content_type = chance.choice(TYPES)
        body = self._body(content_type) if chance.random() < 0.5 else b""
        closed = chance.random() < 0.05
        return Create(name, self.now, incarnation, content_type, body, closed, ttl_secs, retention=retention)

    def _fork(self, name: bytes, source: KeptStream) -> ForkFrom:
        chance = self._chance
        offset = chance.choice([None, *_boundaries(source)])
        sub_offset = chance.choice((0, 0, 1)) if offset is not None else 0
        return ForkFrom(name, offset, sub_offset)

    def _keep(self, name: bytes, stream: KeptStream) -> Command:
        """Change what a stream has of its past."""
        chance = self._chance
        snapshot = stream.head.kept.snapshot
        draw = chance.random()
        if draw < 0.2 and stream.head.identity.retention:
            return Trim(name, self.now)
        if draw < 0.35 and snapshot:
            return Retain(name, self.now, chance.choice([end for end in _boundaries(stream) if end <= snapshot.offset]))
        if draw < 0.4 and snapshot:
            return DeleteSnapshot(name, self.now, snapshot.offset)
        offset = stream.head.tail if chance.random() < 0.4 else chance.choice(_boundaries(stream))
        content_type = chance.choice(TYPES)
        return PublishSnapshot(name, self.now, offset, content_type, keep_history=chance.random() < 0.35)

    def pieces(self) -> list[bytes]:
        """Draw the bytes of a snapshot, in the pieces in which they come."""
        chance = self._chance
        return [chance.randbytes(chance.choice((1, 20, 300, 3000))) for _ in range(chance.choice((0, 1, 1, 2, 5)))]

    def _append(self, name: bytes, stream: KeptStream) -> Append:
        chance = self._chance
        content_type = stream.head.identity.content_type
        close = chance.random() < 0.04
        body = b"" if close and chance.random() < 0.5 else self._body(content_type)
        claim = self._claim(stream) if chance.random() < 0.5 else None
        stream_seq = b"%d" % self.now if chance.random() < 0.2 else None
        return Append(name, self.now, content_type, body, close, claim, stream_seq)

    def _claim(self, stream: KeptStream) -> Claim:
        """Mostly the next one, sometimes the same again, sometimes a new epoch."""
        chance = self._chance
        producer_id = chance.choice(PRODUCERS)
        known = stream.producers.get(producer_id)
        if known is None:
            return Claim(producer_id, chance.randrange(2), 0)
        draw = chance.random()
        if draw < 0.1:
            return Claim(producer_id, known.epoch + 1, 0)
        return Claim(producer_id, known.epoch, known.seq if draw < 0.3 else known.seq + 1)

    def _body(self, content_type: bytes) -> bytes:
        chance = self._chance
        draw = chance.random()
        size = chance.randint(1, 60) if draw < 0.85 else chance.randint(200, 6000) if draw < 0.99 else LARGE_BYTES
        if content_type != b"application/json":
            return chance.randbytes(size)
        count = chance.choice((1, 1, 2, 5))
        text = chance.randbytes(size // count + 1).hex()[: size // count + 1]
        return b"[%b]" % b",".join(b'"%b%d"' % (text.encode(), number) for number in range(count))


def _boundaries(stream: KeptStream) -> list[int]:
    """Give where the messages that a stream retains begin and end."""
    first = stream.head.kept.earliest
    return [first, *(end for end in stream.ends if end > first)]
