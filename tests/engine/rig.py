"""An engine on a storage and a time that the test holds in its hands, and short ways to command it."""

from everbrook.engine.engine import Engine
from everbrook.engine.limits import Limits
from everbrook.engine.stream import Stream
from everbrook.protocol.commands import Append, Create, Delete, ForkFrom
from everbrook.protocol.errors import Unavailable
from everbrook.protocol.outcomes import Appended, Closed, Created, Deleted, Duplicate, Existing, Untouched
from everbrook.protocol.state import Claim
from everbrook.storage.memory import MemoryStorage
from tests.engine.fakes import DelayedStorage, FakeClock, FakeScheduler, RecordingReader

TEXT = b"text/plain"
JSON = b"application/json"
UNBOUNDED = Limits()


def residents(engine: Engine) -> list[bytes | int]:
    """Give what an engine has of streams in its memory."""
    streams = engine._streams
    return [*streams._newest, *streams._visible, *streams._arriving, *engine._expiry._watched]


class Rig:
    """An engine over a memory storage that answers at once."""

    def __init__(self, limits: Limits = UNBOUNDED, storage: MemoryStorage | None = None) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.storage = MemoryStorage() if storage is None else storage
        self.limits = limits
        self.engine = self._start()

    def _start(self) -> Engine:
        return Engine(self.storage, self.scheduler, self.clock, self.limits)

    def restart(self) -> None:
        """Go on with a new engine on what the storage holds, as if the storage had outlived its process."""
        self.engine._expiry.stop()
        self.engine._patrol.stop()
        self.engine._committer.close()
        self.clock.micros += 1000
        self.engine = self._start()

    def create(
        self,
        name: bytes,
        body: bytes = b"",
        *,
        content_type: bytes | None = TEXT,
        ttl_secs: int | None = None,
        expires_at: int | None = None,
        closed: bool = False,
    ) -> Created | Existing:
        """Create a stream."""
        incarnation, now = self.engine.new_incarnation(), self.clock.now()
        command = Create(name, now, incarnation, content_type, body, closed, ttl_secs, expires_at)
        return self.engine.execute(command)

    def fork(
        self,
        name: bytes,
        source: bytes,
        offset: int | None = None,
        sub_offset: int = 0,
        *,
        body: bytes = b"",
        ttl_secs: int | None = None,
    ) -> Created | Existing:
        """Create a fork."""
        incarnation, now = self.engine.new_incarnation(), self.clock.now()
        fork = ForkFrom(source, offset, sub_offset)
        return self.engine.execute(Create(name, now, incarnation, body=body, ttl_secs=ttl_secs, fork=fork))

    def append(
        self,
        name: bytes,
        body: bytes = b"",
        *,
        content_type: bytes = TEXT,
        close: bool = False,
        claim: Claim | None = None,
    ) -> Appended | Closed | Duplicate:
        """Append to a stream, or close it."""
        return self.engine.execute(Append(name, self.clock.now(), content_type, body, close, claim))

    def delete(self, name: bytes) -> Deleted | Untouched:
        """Delete a stream."""
        return self.engine.execute(Delete(name, self.clock.now()))

    def open(self, name: bytes) -> Stream:
        """Begin a read."""
        return self.engine.open(name, self.clock.now())

    def content(self, name: bytes) -> bytes:
        """Read a stream from its beginning to its end, page by page."""
        stream, offset, pages = self.open(name), 0, []
        while True:
            page = self.engine.page(stream, offset)
            pages.append(self.engine.read(stream, page))
            if page.up_to_date:
                return b"".join(pages)
            offset = page.end

    def follow(self, name: bytes, reader: RecordingReader | None = None) -> RecordingReader:
        """Let a reader wait at the tail of a stream."""
        reader = reader or RecordingReader()
        self.engine.join(self.open(name), reader)
        return reader


class DelayedRig(Rig):
    """An engine over a storage whose groups arrive, or fail, when the test says so."""

    storage: DelayedStorage

    def __init__(self, limits: Limits = UNBOUNDED, storage: DelayedStorage | None = None) -> None:
        super().__init__(limits, DelayedStorage() if storage is None else storage)

    def let_group_arrive(self, error: BaseException | None = None) -> None:
        """Let the group that is on its way become durable and visible, or fail."""
        self.scheduler.settle()
        self.storage.give_verdict(error)
        self.scheduler.take_from_thread()

    def let_everything_arrive(self) -> None:
        """Let groups arrive until nothing is on its way."""
        while self.engine.durable_change < self.engine.last_change and not self.engine.failure:
            self.let_group_arrive()

    def answers(self) -> list[Unavailable | None]:
        """Give a list into which the answer to the command just given will be told."""
        told: list[Unavailable | None] = []
        self.engine.when_durable(self.engine.last_change, told.append)
        return told
