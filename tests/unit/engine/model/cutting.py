"""Snapshots, cuts and buckets at random: what a stream keeps of its past, and what is kept for it."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from msgspec import Struct

from everbrook.engine import Stream
from everbrook.engine.blobs import Upload
from everbrook.protocol import CreateBucket, DeleteSnapshot, PublishSnapshot, Retain, Retention, Trim, bucket_record
from everbrook.protocol.errors import ProtocolError, Unavailable
from tests.unit.engine.model.commanding import (
    CommandingMachine,
    attempt,
    places,
    policies,
    positions,
    rarely,
    with_streams,
)
from tests.unit.engine.model.model_stream import ModelSnapshot, ModelStream

BUCKET = b"agents"

bodies = st.integers(0, 999).map(b"snapshot %d".__mod__)
mostly = st.sampled_from([True] * 5 + [False])


class Publication(Struct):
    """A snapshot whose bytes are on their way in."""

    upload: Upload
    command: PublishSnapshot
    body: bytes
    first: bool
    finished: bool = False


class Holding(Struct):
    """A stream that is read in one go, and what its reader is going to see."""

    stream: Stream
    start: int
    content: bytes


class CuttingMachine(CommandingMachine):
    """Publishes, retains, trims; creates and deletes a bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.publications: list[Publication] = []
        self.holdings: list[Holding] = []

    def work(self) -> None:
        """Let the work on blobs be done."""
        while self.worker.run() + self.scheduler.run_from_threads():
            pass

    def chosen(self, name: bytes, at: int, *, exact: bool) -> int:
        """Choose an offset of a stream; there need be none."""
        present = self.model.newest.get(name)
        position = self.position(present, at, exact=exact) if present else at
        return position if position is not None else present.tail if present else 0

    # Snapshots

    @with_streams
    @rule(place=places, at=positions, exact=mostly, body=bodies, keep=st.booleans(), first=rarely)
    def begin_snapshot(self, *, place: int, at: int, exact: bool, body: bytes, keep: bool, first: bool) -> None:
        """Begin to bring a snapshot in. What could not be published even now is refused."""
        name, now = self.name(place), self.clock.now()
        offset, etag = self.chosen(name, at, exact=exact), b"" if first else None
        command = PublishSnapshot(name, now, offset, b"text/plain", keep_history=keep, expected_etag=etag)
        predicted = attempt(lambda: self.model.could_publish(name, offset, now, first=first))
        expected = Unavailable.__name__ if self.model.failed else predicted
        assert attempt(lambda: self._begin(command, body, first=first)) == expected

    def _begin(self, command: PublishSnapshot, body: bytes, *, first: bool) -> str:
        upload = self.engine.begin_snapshot(command)
        self.publications.append(Publication(upload, command, body, first))
        upload.write(body)
        return "taken"

    @with_streams
    @rule(place=places, at=positions, body=bodies, keep=st.booleans())
    def publish_at_once(self, *, place: int, at: int, body: bytes, keep: bool) -> None:
        before = len(self.publications)
        self.begin_snapshot(place=place, at=at, exact=True, body=body, keep=keep, first=False)
        if len(self.publications) > before:
            self._publish(self.publications.pop())

    @precondition(lambda self: self.publications)
    @rule(which=places)
    def publish(self, *, which: int) -> None:
        """The bytes are there: the stream may have moved on, or be another one."""
        self._publish(self.publications.pop(which % len(self.publications)))

    def _publish(self, publication: Publication) -> None:
        upload, command = publication.upload, publication.command
        told: list[ProtocolError | None] = []
        upload.finish(told.append)
        self.work()
        assert told == [None]
        blob, now = (upload.owner, upload.blob), self.clock.now()
        snapshot = ModelSnapshot(command.offset, blob, publication.body)
        done = self.call(
            lambda: type(self.engine.publish(upload, _at(command, now))).__name__,
            lambda: self.model.publish(command.name, snapshot, now, keep=command.keep_history, first=publication.first),
        )
        if not done:
            upload.cancel()

    @precondition(lambda self: self.publications)
    @rule(which=places)
    def give_up_a_snapshot(self, *, which: int) -> None:
        self.publications.pop(which % len(self.publications)).upload.cancel()

    @with_streams
    @rule(place=places, at=positions, exact=rarely)
    def delete_snapshot(self, *, place: int, at: int, exact: bool) -> None:
        name, now = self.name(place), self.clock.now()
        present = self.model.newest.get(name)
        offset = at if exact or not present or not present.snapshot else present.snapshot.offset
        self._command(DeleteSnapshot(name, now, offset), lambda: self.model.delete_snapshot(name, offset, now))

    # Retention

    @with_streams
    @rule(place=places, at=positions, exact=mostly)
    def retain(self, *, place: int, at: int, exact: bool) -> None:
        name, now = self.name(place), self.clock.now()
        offset = self.chosen(name, at, exact=exact)
        self._command(Retain(name, now, offset), lambda: self.model.retain(name, offset, now))

    @precondition(lambda self: any(self.model.newest[name].retention for name in self.model.names))
    @rule(place=places)
    def trim(self, *, place: int) -> None:
        """Apply a policy, as happens in the background at whatever time."""
        names = [name for name in self.model.names if self.model.newest[name].retention]
        name, now = names[place % len(names)], self.clock.now()
        self._command(Trim(name, now), lambda: self.model.trim(name, now))

    # Buckets

    @initialize(policy=policies)
    def begin_with_a_bucket(self, *, policy: Retention | None) -> None:
        self.create_bucket(policy=policy)

    @precondition(lambda self: bucket_record(BUCKET) not in self.model.newest)
    @rule(policy=policies)
    def create_bucket(self, *, policy: Retention | None) -> None:
        now, incarnation = self.clock.now(), self.engine.new_incarnation()
        command = CreateBucket(BUCKET, now, incarnation, policy)
        self._command(command, lambda: self.model.create_bucket(BUCKET, incarnation, policy, now))

    @precondition(lambda self: bucket_record(BUCKET) in self.model.newest)
    @rule(sure=rarely)
    def delete_bucket(self, *, sure: bool) -> None:
        if sure:
            self.remove_bucket()

    def remove_bucket(self) -> None:
        now, durable = self.clock.now(), self.engine.durable_change
        self.call(
            lambda: type(self.engine.buckets.delete(BUCKET)).__name__,
            lambda: self.model.delete_bucket(BUCKET, durable, now),
        )

    # Space

    def check_blobs(self) -> None:
        """When nothing is on its way, there are the blobs that somebody needs and no others."""
        self.work()
        blobs = {key for batch in self.storage.blobs.all() for key in batch}
        assert blobs == self.model.blobs()

    def give_up_everything(self) -> None:
        """Nobody brings or reads anything any more."""
        while self.publications:
            self.give_up_a_snapshot(which=0)
        while self.holdings:
            self.engine.reclaimer.release(self.holdings.pop().stream)
        self.work()

    def held(self, stream: Stream, expected: ModelStream) -> None:
        """Read a stream in one go from now on."""
        self.engine.reclaimer.hold(stream)
        self.holdings.append(Holding(stream, expected.earliest, expected.content[expected.earliest :]))


def _at(command: PublishSnapshot, now: int) -> PublishSnapshot:
    return PublishSnapshot(
        command.name,
        now,
        command.offset,
        command.content_type,
        keep_history=command.keep_history,
        expected_etag=command.expected_etag,
    )
