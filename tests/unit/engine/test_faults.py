"""An exception in a callback stops nothing but the callback; one in the engine's own state poisons the store."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from everbrook.engine import Batch, Engine, Stream
from everbrook.engine.expiry import Expiry
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.limits import Limits
from everbrook.protocol import Change, Create, Head, Retention
from everbrook.protocol.errors import ProtocolError, StreamDamaged, Unavailable
from everbrook.storage import MemoryStorage, MessageIndex, Record, StorageFull
from tests.kit.fakes import START_MS, DelayedStorage, FakeClock, FakeScheduler, RecordingReader
from tests.unit.engine.faulty import Fault, fail, poisoned
from tests.unit.engine.rig import DelayedRig, Rig

Log = pytest.LogCaptureFixture


def counted(rig: Rig) -> dict[str, int]:
    """Give how many faults of each kind there were, of those that there were."""
    return {kind.value: count for kind, count in rig.engine.inspect().faults.items() if count}


# Callbacks


def test_an_answer_that_fails_stops_no_other_and_no_later_group(delayed: DelayedRig, faults: Log) -> None:
    delayed.create(b"a")
    delayed.engine.when_durable(delayed.engine.last_change, fail)
    told = delayed.answers()
    delayed.let_group_arrive()
    delayed.append(b"a", b"x")
    delayed.let_group_arrive()
    assert (told, delayed.content(b"a"), delayed.engine.failure) == ([None], b"x", None)
    assert counted(delayed) == {"answer": 1}
    assert "in fail\n    raise Fault" in faults.text


def test_an_answer_that_fails_is_told_of_no_other_failure(delayed: DelayedRig, faults: Log) -> None:
    delayed.create(b"a")
    delayed.engine.when_durable(delayed.engine.last_change, fail)
    told = delayed.answers()
    delayed.let_group_arrive(OSError("gone"))
    assert [type(each) for each in told] == [Unavailable]
    assert counted(delayed) == {"answer": 1}


def test_a_follower_that_fails_stops_no_other_and_no_answer(delayed: DelayedRig, faults: Log) -> None:
    seen: list[object] = []
    delayed.engine.followers[:] = [fail, seen.append]
    delayed.create(b"a", b"x")
    told = delayed.answers()
    delayed.let_group_arrive()
    assert (len(seen), told, delayed.content(b"a"), delayed.engine.failure) == (1, [None], b"x", None)
    assert counted(delayed) == {"follower": 1}


def test_a_follower_that_fails_does_not_fail_a_command_in_memory(rig: Rig, faults: Log) -> None:
    rig.engine.followers.append(fail)
    rig.create(b"a", b"x")
    assert (rig.content(b"a"), rig.engine.failure, counted(rig)) == (b"x", None, {"follower": 1})


def test_who_waits_for_the_end_of_a_group_and_fails_stops_no_other(delayed: DelayedRig, faults: Log) -> None:
    taken: list[object] = []
    delayed.create(b"a")
    delayed.engine.pin(fail)
    delayed.engine.pin(lambda pin, _error: taken.append(pin))
    told = delayed.answers()
    delayed.let_group_arrive()
    assert (taken, told, counted(delayed)) == ([None], [None], {"between_groups": 1})


def test_who_is_told_of_a_roll_back_and_fails_stops_nothing(delayed: DelayedRig, faults: Log) -> None:
    delayed.engine.on_roll_back = fail
    delayed.create(b"a")
    told = delayed.answers()
    delayed.let_group_arrive(StorageFull("full"))
    delayed.create(b"a")
    delayed.let_group_arrive()
    assert ([type(each) for each in told], delayed.content(b"a")) == ([Unavailable], b"")
    assert counted(delayed) == {"roll_back": 1}


def test_who_is_told_of_a_failure_and_fails_stops_nothing(delayed: DelayedRig, faults: Log) -> None:
    delayed.engine.on_failure = fail
    delayed.create(b"a")
    told = delayed.answers()
    delayed.let_group_arrive(OSError("gone"))
    assert [type(each) for each in told] == [Unavailable]
    assert counted(delayed) == {"failure": 1}


def test_expiry_that_fails_at_a_change_stops_nothing(
    delayed: DelayedRig, faults: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Expiry, "follow", fail)
    delayed.create(b"a", b"x")
    told = delayed.answers()
    delayed.let_group_arrive()
    assert (told, delayed.content(b"a"), counted(delayed)) == ([None], b"x", {"follower": 1})


# Readers


class FailingReader(RecordingReader):
    """A reader that fails at everything."""

    def deliver(self, batch: Batch) -> None:
        super().deliver(batch)
        fail()

    def fail(self, error: ProtocolError) -> None:
        super().fail(error)
        fail()


def test_a_reader_that_fails_is_ended_and_stops_no_other(rig: Rig, faults: Log) -> None:
    rig.create(b"a")
    failing, reader = rig.follow(b"a", FailingReader()), rig.follow(b"a")
    for message in (b"1", b"2"):
        rig.append(b"a", message)
        rig.scheduler.settle()
    assert (failing.received, [error.status for error in failing.errors], reader.received) == (b"1", [500], b"12")
    assert counted(rig) == {"reader": 2}


def test_a_reader_that_fails_at_the_end_of_its_stream_stops_no_other(delayed: DelayedRig, faults: Log) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive()
    delayed.follow(b"a", FailingReader())
    reader = delayed.follow(b"a")
    delayed.delete(b"a")
    told = delayed.answers()
    delayed.let_group_arrive()
    assert (len(reader.errors), told, delayed.engine.failure) == (1, [None], None)


class UnreadableStorage(MemoryStorage):
    """A storage whose bytes can't be read."""

    error: Exception | None = None

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        if self.error:
            raise self.error
        return super().read(incarnation, start, end)


@pytest.mark.parametrize(
    "error, told", [(StreamDamaged("lost"), StreamDamaged), (OSError("broken"), ProtocolError)], ids=["damaged", "bug"]
)
def test_readers_of_what_can_not_be_read_are_told(faults: Log, error: Exception, told: type[ProtocolError]) -> None:
    storage = UnreadableStorage()
    rig = Rig(storage=storage)
    rig.create(b"a")
    readers = [rig.follow(b"a"), rig.follow(b"a")]
    storage.error = error
    rig.append(b"a", b"1")
    rig.scheduler.settle()
    assert [[type(each) for each in reader.errors] for reader in readers] == [[told], [told]]


# Expiry


class BrokenStorage(DelayedStorage):
    """A storage that raises at everything that is asked about one stream, or at the next slices of the scan."""

    broken = b""
    scan_faults = 0

    def load(self, name: bytes) -> Record | None:
        if name == self.broken:
            fail()
        return super().load(name)

    def index_at(self, incarnation: int, offset: int, /) -> MessageIndex:
        if self._heads[incarnation].identity.name == self.broken:
            fail()
        return super().index_at(incarnation, offset)

    def mortal(self, after: int, limit: int) -> list[Head]:
        if self.scan_faults:
            self.scan_faults -= 1
            fail()
        heads = sorted(self._heads.values(), key=lambda head: head.identity.incarnation)
        return [head for head in heads if head.identity.mortal and head.identity.incarnation > after][:limit]


@pytest.fixture
def storage() -> BrokenStorage:
    return BrokenStorage()


@pytest.fixture
def broken(storage: BrokenStorage) -> Iterator[DelayedRig]:
    rig = DelayedRig(storage=storage)
    yield rig
    rig.let_everything_arrive()
    rig.engine.close()


def test_a_policy_that_fails_on_one_stream_is_applied_to_the_others(
    broken: DelayedRig, storage: BrokenStorage, faults: Log
) -> None:
    for name in (b"a", b"b"):
        broken.create(name, retention=Retention(max_age_secs=1))
        broken.append(name, b"old")
    broken.let_everything_arrive()
    storage.broken = b"a"
    broken.scheduler.advance(5_000)
    broken.let_everything_arrive()
    assert broken.kept(b"b").earliest == 3
    assert counted(broken)["timer"] > 0


def test_a_stream_that_the_scan_fails_on_stops_no_other(
    broken: DelayedRig, storage: BrokenStorage, faults: Log
) -> None:
    for name in (b"a", b"b"):
        broken.create(name, expires_at=START_MS + 5_000)
    broken.let_everything_arrive()
    broken.restart()
    storage.broken = b"a"
    broken.scheduler.advance(60_000)
    broken.let_everything_arrive()
    assert storage.load(b"b") is None
    storage.broken = b""
    broken.scheduler.advance(60_000)
    broken.let_everything_arrive()
    assert storage.load(b"a") is None


def test_a_scan_that_fails_goes_round_again(broken: DelayedRig, storage: BrokenStorage, faults: Log) -> None:
    broken.create(b"a", expires_at=START_MS + 5_000)
    broken.let_everything_arrive()
    broken.restart()
    storage.scan_faults = 1
    broken.scheduler.advance(60_000)
    broken.let_everything_arrive()
    assert (storage.load(b"a"), counted(broken)) == (None, {"timer": 1})


# The engine's own state


class UnappliedStorage(DelayedStorage):
    """A storage that can't show what it has persisted."""

    broken = False

    def apply(self, group: Sequence[Change]) -> None:
        if self.broken:
            fail()
        super().apply(group)


def test_a_group_that_can_not_be_applied_poisons_the_store(faults: Log) -> None:
    storage = UnappliedStorage()
    rig = DelayedRig(storage=storage)
    failures = poisoned(rig)
    rig.create(b"a")
    on_its_way = rig.answers()
    rig.scheduler.settle()
    rig.append(b"a", b"x")
    queued = rig.answers()
    storage.broken = True
    rig.let_group_arrive()
    assert on_its_way == queued == failures == [rig.engine.failure]
    assert "Fault" in str(rig.engine.failure)
    assert [(record.levelname, bool(record.exc_info)) for record in faults.records] == [
        ("ERROR", True),
        ("CRITICAL", False),
    ]
    assert "in fail\n    raise Fault" in faults.text
    with pytest.raises(Unavailable):
        rig.create(b"b")
    assert rig.commits.run() == 0


def test_a_change_that_can_not_be_published_poisons_the_store(
    delayed: DelayedRig, faults: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive()
    monkeypatch.setattr(Stream, "commit", fail)
    delayed.append(b"a", b"x")
    told = delayed.answers()
    delayed.let_group_arrive()
    assert told == [delayed.engine.failure]
    assert counted(delayed) == {"commit": 1}


def test_a_roll_back_that_fails_poisons_the_store(broken: DelayedRig, storage: BrokenStorage, faults: Log) -> None:
    broken.create(b"a")
    told = broken.answers()
    storage.broken = b"a"
    broken.let_group_arrive(StorageFull("full"))
    assert told == [broken.engine.failure]
    assert counted(broken) == {"commit": 1}


def test_a_change_that_memory_can_not_apply_poisons_the_store(faults: Log) -> None:
    class Broken(MemoryStorage):
        def apply(self, group: Sequence[Change]) -> None:  # noqa: ARG002 - whatever it is
            fail()

    rig = Rig(storage=Broken())
    for _ in range(2):
        with pytest.raises(Unavailable):
            rig.create(b"a")
    assert rig.engine.failure is not None


class NoThreads(Executor):
    """An executor that gets no thread."""

    def submit(self, *_: object, **__: object) -> "Future[Any]":
        raise RuntimeError("can't start new thread")


def test_a_commit_thread_that_can_not_start_poisons_the_store(faults: Log) -> None:
    clock = FakeClock()
    scheduler = FakeScheduler(clock)
    engine = Engine(DelayedStorage(), scheduler, clock, Limits(), commit_executor=NoThreads())
    engine.execute(Create(b"a", clock.now(), engine.new_incarnation()))
    told: list[Unavailable | None] = []
    engine.when_durable(engine.last_change, told.append)
    scheduler.settle()
    assert told == [engine.failure]
    assert "can't start new thread" in str(engine.failure)


def test_a_failed_sync_is_logged_once_with_its_stack(delayed: DelayedRig, faults: Log) -> None:
    failures = poisoned(delayed)
    delayed.create(b"a")
    delayed.let_group_arrive(OSError("gone"))
    delayed.engine.close()
    assert failures == [delayed.engine.failure]
    (record,) = faults.records
    assert (record.levelno, "gone" in record.getMessage(), bool(record.exc_info)) == (logging.CRITICAL, True, True)


def test_closing_is_no_failure(delayed: DelayedRig) -> None:
    failures = poisoned(delayed)
    delayed.engine.close()
    assert (failures, delayed.engine.failure is not None) == ([], True)


# The log


def test_a_fault_that_comes_again_and_again_does_not_fill_the_log(faults: Log) -> None:
    clock = FakeClock()
    noted = Faults(clock, FakeScheduler(clock))

    def note() -> None:
        try:
            fail()
        except Fault:
            noted.note(Callback.FOLLOWER)

    for _ in range(5):
        note()
    clock.micros += 1_000_000
    note()
    assert noted.counts[Callback.FOLLOWER] == 6
    assert [record.getMessage().rpartition("follower")[2] for record in faults.records] == [
        "",
        " (4 more since the last such line)",
    ]
