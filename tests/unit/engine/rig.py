"""An engine on a storage and a time that the test holds in its hands, and short ways to command it."""

from everbrook.engine import Engine, EngineTuning, Stream
from everbrook.engine.blobs import Upload
from everbrook.engine.limits import Limits
from everbrook.engine.tuning import DEFAULT_TUNING
from everbrook.engine.usage import Amount
from everbrook.protocol import (
    Append,
    Appended,
    Claim,
    Closed,
    Create,
    CreateBucket,
    Created,
    Cut,
    Delete,
    Deleted,
    Duplicate,
    Existing,
    ForkFrom,
    Head,
    Kept,
    PublishSnapshot,
    Retain,
    Retention,
    Untouched,
)
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.storage import MemoryStorage
from tests.kit.fakes import DelayedStorage, FakeClock, FakeScheduler, HandWorker, RecordingReader

TEXT = b"text/plain"
JSON = b"application/json"
UNBOUNDED = Limits()


def residents(engine: Engine) -> int:
    """Count what an engine has of streams in its memory, in all the places where it has them."""
    found = engine.inspect()
    streams = found.resident_streams + found.newest_streams + found.arriving_streams
    return streams + found.expiring.streams + found.trimming.streams


# What only decisions see. The engine has no public way to it, and all tests use these.


def newest(engine: Engine, name: bytes) -> Head | None:
    """Give the newest head of a stream, durable or not."""
    return engine._streams.newest_head(name)


def newest_heads(engine: Engine, prefix: bytes) -> list[Head]:
    """Give the newest heads of all streams whose names begin with `prefix`, even of those that do not live."""
    return list(engine.listing.heads(prefix))


def is_populated(engine: Engine, prefix: bytes) -> bool:
    """Tell whether there is a stream whose name begins with `prefix`, in the newest state."""
    return engine._streams.populated(prefix)


def held(engine: Engine, scope: bytes) -> Amount:
    """Give what a bucket holds, or the whole store, as quotas count it."""
    return engine.quotas.held(scope)


def durable(engine: Engine, name: bytes) -> Head | None:
    """Give the durable head of a stream, even of one that does not live."""
    stream = engine._streams.visible(name)
    return stream.committed if stream else None


def resident_streams(engine: Engine) -> tuple[Stream, ...]:
    """Give the streams in memory that have a durable state, without touching or loading any."""
    return engine._streams.residents()


def change_limits(engine: Engine, limits: Limits) -> None:
    """Let an engine go on with other limits, as after a restart with other settings."""
    engine.limits = engine._capacity.limits = limits


def evict(engine: Engine) -> None:
    """Let the next few streams leave memory if they are idle, as the engine does when it has too many."""
    engine._streams.evict()


class Rig:
    """An engine over a memory storage that answers at once."""

    def __init__(
        self,
        limits: Limits = UNBOUNDED,
        storage: MemoryStorage | None = None,
        tuning: EngineTuning = DEFAULT_TUNING,
    ) -> None:
        self.clock = FakeClock()
        self.storage = MemoryStorage() if storage is None else storage
        self.limits = limits
        self.tuning = tuning
        self.engine = self.start()

    def start(self) -> Engine:
        """Start an engine on what the storage holds. What goes to the disk does so when the test says so."""
        self.scheduler = FakeScheduler(self.clock)
        self.worker, self.commits = HandWorker(), HandWorker()
        return Engine(
            self.storage,
            self.scheduler,
            self.clock,
            self.limits,
            tuning=self.tuning,
            commit_executor=self.commits,
            blob_executor=self.worker,
        )

    def work(self) -> None:
        """Let the work on blobs be done."""
        while self.worker.run() + self.scheduler.run_from_threads():
            pass

    def restart(self) -> None:
        """Go on with a new engine on what the storage holds: what was on its way, and what was timed, is lost."""
        self.clock.micros += 1000
        self.engine = self.start()

    def create(
        self,
        name: bytes,
        body: bytes = b"",
        *,
        content_type: bytes | None = TEXT,
        ttl_secs: int | None = None,
        expires_at: int | None = None,
        closed: bool = False,
        retention: Retention | None = None,
    ) -> Created | Existing:
        """Create a stream."""
        incarnation, now = self.engine.new_incarnation(), self.clock.now()
        command = Create(name, now, incarnation, content_type, body, closed, ttl_secs, expires_at, None, retention)
        return self.engine.execute(command)

    def create_bucket(self, bucket_id: bytes, retention: Retention | None = None) -> Created:
        """Create a bucket."""
        return self.engine.execute(CreateBucket(bucket_id, self.clock.now(), self.engine.new_incarnation(), retention))

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

    def publish(self, name: bytes, offset: int, body: bytes = b"snapshot", *, keep_history: bool = False) -> Cut:
        """Publish a snapshot of a stream."""
        command = PublishSnapshot(name, self.clock.now(), offset, TEXT, keep_history=keep_history)
        return self.engine.publish(self.upload(command, body), command)

    def upload(self, command: PublishSnapshot, body: bytes = b"snapshot") -> Upload:
        """Bring the bytes of a snapshot in."""
        upload, told = self.engine.begin_snapshot(command), list[ProtocolError | None]()
        upload.write(body)
        upload.finish(told.append)
        self.work()
        assert told == [None]
        return upload

    def retain(self, name: bytes, offset: int) -> Cut:
        """Let go of what lies before an offset."""
        return self.engine.execute(Retain(name, self.clock.now(), offset))

    def kept(self, name: bytes) -> Kept:
        """Tell what a stream has of its past, without touching it."""
        return self.engine.readers.find(name, self.clock.now()).committed.kept

    def snapshot(self, name: bytes) -> bytes:
        """Read the snapshot of a stream."""
        snapshot = self.kept(name).snapshot
        assert snapshot is not None
        return self.blob(snapshot.owner, snapshot.blob, snapshot.size) if snapshot.blob else b""

    def blob(self, owner: int, number: int, size: int) -> bytes:
        """Read a blob."""
        reader, pieces = self.storage.blobs.open(owner, number, size), list[bytes]()
        while piece := reader.read(5):
            pieces.append(piece)
        return b"".join(pieces)

    def blobs(self) -> list[tuple[int, int]]:
        """Give the blobs that there are."""
        return [key for batch in self.storage.blobs.all() for key in batch]

    def open(self, name: bytes) -> Stream:
        """Begin a read."""
        return self.engine.readers.open(name, self.clock.now())

    def content(self, name: bytes) -> bytes:
        """Read a stream from what it retains first to its end, page by page."""
        stream = self.open(name)
        offset, pages = stream.committed.kept.earliest, []
        while True:
            page = self.engine.readers.page(stream, offset)
            pages.append(self.engine.readers.read(stream, page))
            if page.up_to_date:
                return b"".join(pages)
            offset = page.end

    def follow(self, name: bytes, reader: RecordingReader | None = None) -> RecordingReader:
        """Let a reader wait at the tail of a stream."""
        reader = reader or RecordingReader()
        self.engine.readers.join(self.open(name), reader)
        return reader


class DelayedRig(Rig):
    """An engine over a storage whose groups arrive, or fail, when the test says so."""

    storage: DelayedStorage

    def __init__(
        self,
        limits: Limits = UNBOUNDED,
        storage: DelayedStorage | None = None,
        tuning: EngineTuning = DEFAULT_TUNING,
    ) -> None:
        super().__init__(limits, DelayedStorage() if storage is None else storage, tuning)

    def let_group_arrive(self, error: BaseException | None = None) -> None:
        """Let the group that is on its way become durable and visible, or fail."""
        self.scheduler.settle()
        self.storage.verdict = error
        assert self.commits.run(1), "nothing is on its way"
        self.scheduler.run_from_threads()

    def let_everything_arrive(self) -> None:
        """Let groups arrive until nothing is on its way."""
        while self.engine.durable_change < self.engine.last_change and not self.engine.failure:
            self.let_group_arrive()

    def answers(self) -> list[Unavailable | None]:
        """Give a list into which the answer to the command just given will be told."""
        told: list[Unavailable | None] = []
        self.engine.when_durable(self.engine.last_change, told.append)
        return told
