"""Damaged streams: readable before the damage, closed to changes, deletable; and nothing else suffers from one."""

from contextlib import suppress

import pytest

from everbrook.engine import Stream
from everbrook.engine.records import SUBSCRIPTION_RECORDS
from everbrook.protocol import REGISTRY, STREAM_ROOT, Append, Create, Delete, ForkFrom, Sentinel
from everbrook.protocol.errors import StreamDamaged, StreamNotFound, SubscriptionNotFound
from everbrook.server.resources.registry import Registry
from everbrook.storage import Damaged, DamageMark, Record
from tests.kit.fakes import LastingStorage
from tests.unit.engine.rig import TEXT, Rig
from tests.unit.engine.subscriptions.subscribing import SubscribingRig

MARK = DamageMark(4, "base/data.mdb: a block is damaged")


class RottenStorage(LastingStorage):
    """A storage some of whose streams are damaged from an offset on."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: dict[bytes, DamageMark] = {}
        """What the storage knows of when a stream is loaded."""
        self.hidden: dict[int, int] = {}
        """Incarnations, and the offset of the byte that can't be read."""
        self.marked: set[int] = set()
        """Incarnations that the storage has found to be damaged by itself."""

    def damage_of(self, incarnation: int) -> DamageMark | None:
        return MARK if incarnation in self.marked else None

    def load(self, name: bytes) -> Record | None:
        found = super().load(name)
        return Record(found.head, found.producers, self.noted.get(name)) if found else None

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        broken = self.hidden.get(incarnation, end)
        if start <= broken < end:
            raise Damaged(incarnation, broken, "base/data.mdb", "a block is damaged")
        return super().read(incarnation, start, end)


@pytest.fixture
def storage() -> RottenStorage:
    return RottenStorage()


@pytest.fixture
def rig(storage: RottenStorage) -> Rig:
    """An engine with a stream of three messages, `ab`, `cd` and `ef`."""
    rig = Rig(storage=storage)
    rig.create(b"a")
    for body in (b"ab", b"cd", b"ef"):
        rig.append(b"a", body)
    rig.create(b"b", b"fine")
    return rig


def read(rig: Rig, stream: Stream, offset: int) -> bytes:
    """Read a page as a server does: once more, when damage has just been found."""
    with suppress(StreamDamaged):
        return rig.engine.readers.read(stream, rig.engine.readers.page(stream, offset))
    return rig.engine.readers.read(stream, rig.engine.readers.page(stream, offset))


def lose_the_end(rig: Rig, storage: RottenStorage, name: bytes = b"a") -> Stream:
    """Let the storage know that what follows the tail was lost."""
    storage.noted[name] = DamageMark(6, "journal: change 7 can't be read")
    rig.restart()
    return rig.engine.readers.find(name, rig.clock.now())


def test_damage_that_a_read_meets_ends_the_page_before_it(rig: Rig, storage: RottenStorage) -> None:
    stream = rig.engine.readers.find(b"a", rig.clock.now())
    storage.hidden[stream.head.identity.incarnation] = 5
    assert read(rig, stream, 0) == b"abcd"
    with pytest.raises(StreamDamaged, match="from offset 0000000000000005 on"):
        read(rig, stream, 4)


def test_what_lies_behind_the_damage_can_be_read(rig: Rig, storage: RottenStorage) -> None:
    stream = rig.engine.readers.find(b"a", rig.clock.now())
    storage.hidden[stream.head.identity.incarnation] = 1
    with pytest.raises(StreamDamaged):
        read(rig, stream, 0)
    assert read(rig, stream, 2) == b"cdef"


def test_nobody_waits_at_the_end_of_a_stream_that_lost_its_last_change(rig: Rig, storage: RottenStorage) -> None:
    stream = lose_the_end(rig, storage)
    assert read(rig, stream, 0) == b"abcdef"
    with pytest.raises(StreamDamaged, match="change 7 can't be read"):
        rig.engine.readers.page(stream, Sentinel.NOW)


@pytest.mark.parametrize("found", ["by a read", "by the storage"])
def test_a_damaged_stream_takes_nothing_and_can_be_deleted(rig: Rig, storage: RottenStorage, found: str) -> None:
    if found == "by a read":
        stream = rig.engine.readers.find(b"a", rig.clock.now())
        storage.hidden[stream.head.identity.incarnation] = 5
        read(rig, stream, 0)
    else:
        lose_the_end(rig, storage)
    with pytest.raises(StreamDamaged, match="takes no changes"):
        rig.append(b"a", b"gh")
    rig.append(b"b", b", still")
    rig.engine.execute(Delete(b"a", rig.clock.now()))
    with pytest.raises(StreamNotFound):
        rig.engine.readers.find(b"a", rig.clock.now())
    storage.noted.clear()
    rig.create(b"a")
    rig.append(b"a", b"new")


def test_a_fork_of_a_damaged_stream_takes_appends(rig: Rig, storage: RottenStorage) -> None:
    lose_the_end(rig, storage)
    now = rig.clock.now()
    rig.engine.execute(Create(b"f", now, rig.engine.new_incarnation(), None, b"", fork=ForkFrom(b"a", 4)))
    rig.engine.execute(Append(b"f", now, TEXT, b"own"))
    assert read(rig, rig.engine.readers.find(b"f", now), 0) == b"abcdown"


def test_a_damaged_registry_is_made_anew(storage: RottenStorage) -> None:
    rig = Rig(storage=storage)
    registry = Registry(rig.engine)
    registry.wake()
    rig.create(b"/v1/stream/x")
    rig.scheduler.advance(60_000)
    storage.noted[REGISTRY] = DamageMark(3, "a block is damaged")
    before = rig.engine.readers.find(REGISTRY, rig.clock.now()).head.identity.incarnation
    rig.restart()
    registry = Registry(rig.engine)
    registry.wake()
    rig.scheduler.settle()
    storage.noted.clear()
    rig.scheduler.advance(60_000)
    stream = rig.engine.readers.find(REGISTRY, rig.clock.now())
    assert stream.head.identity.incarnation != before
    assert b'"x"' in read(rig, stream, 0)


def test_a_damaged_subscription_is_stopped_alone_and_can_be_deleted(
    storage: RottenStorage, caplog: pytest.LogCaptureFixture
) -> None:
    rig = SubscribingRig(storage=storage)
    for each in ("one", "two"):
        rig.hook(each)
    name = SUBSCRIPTION_RECORDS + STREAM_ROOT + b"one"
    storage.noted[name] = DamageMark(0, "its head is missing")
    rig.crash()
    assert rig.subscriptions.find(STREAM_ROOT, "two").id == "two"
    assert "subscription/v1/stream/one' is stopped" in caplog.text
    with pytest.raises(StreamDamaged, match="delete it and create it anew"):
        rig.subscriptions.find(STREAM_ROOT, "one")
    with pytest.raises(StreamDamaged, match="delete it and create it anew"):
        rig.hook("one")
    rig.subscriptions.unsubscribe(STREAM_ROOT, "one")
    with pytest.raises(SubscriptionNotFound):
        rig.subscriptions.find(STREAM_ROOT, "one")
    storage.noted.clear()
    rig.hook("one")


# Readers at the tail


def test_readers_at_the_tail_are_told_of_damage_that_another_read_meets(rig: Rig, storage: RottenStorage) -> None:
    """A damaged stream takes nothing more: they would wait for ever."""
    stream = rig.engine.readers.find(b"a", rig.clock.now())
    reader, other = rig.follow(b"a"), rig.follow(b"b")
    storage.hidden[stream.head.identity.incarnation] = 5
    read(rig, stream, 0)
    assert [type(error) for error in reader.errors] == [Damaged]
    assert other.errors == []


def test_readers_at_the_tail_are_told_when_a_change_is_refused_for_damage(rig: Rig, storage: RottenStorage) -> None:
    reader = rig.follow(b"a")
    storage.damaged_streams = 1
    storage.marked.add(rig.engine.readers.find(b"a", rig.clock.now()).head.identity.incarnation)
    with pytest.raises(StreamDamaged, match="takes no changes"):
        rig.append(b"a", b"gh")
    assert [type(error) for error in reader.errors] == [StreamDamaged]


def test_damage_of_a_source_ends_who_waits_there_and_not_at_its_fork(rig: Rig, storage: RottenStorage) -> None:
    rig.fork(b"f", b"a")
    at_source, at_fork = rig.follow(b"a"), rig.follow(b"f")
    storage.hidden[rig.engine.readers.find(b"a", rig.clock.now()).head.identity.incarnation] = 5
    fork = rig.engine.readers.find(b"f", rig.clock.now())
    read(rig, fork, 0)
    assert len(at_source.errors) == 1
    rig.append(b"f", b"gh")
    rig.scheduler.settle()
    assert (at_fork.received, at_fork.errors) == (b"gh", [])
