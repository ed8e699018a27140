"""Random commands: everything that a client can ask for, on a few names, so that they meet."""

from random import Random

from everbrook.protocol.commands import Append, Command, Create, Delete, Expire, ForkFrom
from everbrook.protocol.state import Claim
from tests.protocol.views import KeptStream, Streams

NAMES = (b"a", b"b", b"c", b"/d/e", b"n" * 400)
PRODUCERS = (b"p", b"q", b"r" * 256)
TYPES = (b"text/plain", b"application/json", b"application/octet-stream")
LARGE_BYTES = 140_000
WEEK_MS = 8 * 86_400_000


class Workload:
    """Draws commands that mostly make sense for the streams as they are."""

    def __init__(self, chance: Random, now: int) -> None:
        self._chance = chance
        self.now = now

    def next(self, streams: Streams, incarnation: int) -> Command:
        """Draw a command, a little later than the one before."""
        chance = self._chance
        self.now += WEEK_MS if chance.random() < 0.005 else chance.choice((0, 1, 1, 200, 1500))
        name = chance.choice(NAMES)
        stream = streams.kept.get(name)
        draw = chance.random()
        if stream is None or draw < 0.08:
            return self._create(name, streams, incarnation)
        if draw < 0.17:
            return Delete(name, self.now) if chance.random() < 0.6 else Expire(name, self.now)
        return self._append(name, stream)

    def _create(self, name: bytes, streams: Streams, incarnation: int) -> Create:
        chance = self._chance
        ttl_secs = chance.choice((None, None, None, None, 1, 100_000))
        others = [other for other in streams.kept if other != name]
        if others and chance.random() < 0.5:
            source = chance.choice(others)
            offset = chance.choice([None, 0, *streams.kept[source].ends])
            sub_offset = chance.choice((0, 0, 1)) if offset is not None else 0
            fork = ForkFrom(source, offset, sub_offset)
            body = b"" if chance.random() < 0.7 else self._body(streams.kept[source].head.identity.content_type)
            return Create(name, self.now, incarnation, body=body, ttl_secs=ttl_secs, fork=fork)
        content_type = chance.choice(TYPES)
        body = self._body(content_type) if chance.random() < 0.5 else b""
        closed = chance.random() < 0.05
        return Create(name, self.now, incarnation, content_type, body, closed, ttl_secs)

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
        if draw < 0.15:
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
