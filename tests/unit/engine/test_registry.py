"""The registry: brought up to what is there when it is first read, and following from then on."""

from typing import Any

import msgspec
import pytest

from everbrook.engine.limits import Limits
from everbrook.protocol import REGISTRY, STREAM_ROOT
from everbrook.protocol.errors import MethodNotAllowed
from everbrook.server.resources.registry import Registry, require_writable
from everbrook.server.tuning import RegistryTuning
from everbrook.storage import StorageFull
from tests.unit.engine.rig import DelayedRig, Rig, change_limits

FLUSH_MS, RETRY_MS = int(RegistryTuning().flush_secs * 1000), int(RegistryTuning().retry_secs * 1000)


def named(name: bytes) -> bytes:
    return STREAM_ROOT + name


def messages(rig: Rig) -> list[tuple[Any, Any]]:
    """What the registry says: operations and names."""
    said = msgspec.json.decode(b"[%b]" % rig.content(REGISTRY)[:-1])
    return [(message["headers"]["operation"], message["key"]) for message in said]


def test_nothing_is_said_before_somebody_reads(rig: Rig) -> None:
    Registry(rig.engine)
    rig.create(named(b"a"))
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == []


def test_a_first_reader_finds_what_is_there(rig: Rig) -> None:
    registry = Registry(rig.engine)
    for name in (b"b", b"a"):
        rig.create(named(name))
    registry.wake()
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == [("insert", "a"), ("insert", "b")]


def test_it_follows_what_comes_and_goes(rig: Rig) -> None:
    Registry(rig.engine).wake()
    rig.create(named(b"a"))
    rig.scheduler.advance(FLUSH_MS)
    rig.delete(named(b"a"))
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == [("insert", "a"), ("delete", "a")]


def test_a_stream_that_was_created_anew_is_told_of_again(rig: Rig) -> None:
    Registry(rig.engine).wake()
    rig.create(named(b"a"))
    rig.scheduler.advance(FLUSH_MS)
    rig.delete(named(b"a"))
    rig.create(named(b"a"))
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == [("insert", "a"), ("delete", "a"), ("insert", "a")]


def test_the_end_of_a_stream_is_told_of_once(rig: Rig) -> None:
    Registry(rig.engine).wake()
    for step in (rig.create, rig.delete, rig.create):
        step(named(b"a"))
        rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == [("insert", "a"), ("delete", "a"), ("insert", "a")]


def test_appends_are_not_told_of(rig: Rig) -> None:
    Registry(rig.engine).wake()
    rig.create(named(b"a"))
    rig.scheduler.advance(FLUSH_MS)
    rig.append(named(b"a"), b"x")
    assert rig.scheduler.timers == 0


def test_streams_in_buckets_are_not_told_of(rig: Rig) -> None:
    Registry(rig.engine).wake()
    rig.create_bucket(b"agents")
    rig.create(b"/ds/agents/a")
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == []


def test_after_a_restart_only_what_changed_meanwhile_is_said(rig: Rig) -> None:
    Registry(rig.engine).wake()
    for name in (b"a", b"b"):
        rig.create(named(name))
    rig.scheduler.advance(FLUSH_MS)
    rig.restart()
    rig.delete(named(b"a"))
    Registry(rig.engine).wake()
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == [("insert", "a"), ("insert", "b"), ("delete", "a")]


def test_it_begins_anew_when_most_of_it_is_past() -> None:
    rig = Rig()
    Registry(rig.engine, RegistryTuning(max_past_messages=4)).wake()
    rig.create(named(b"kept"))
    for _ in range(4):
        rig.create(named(b"a"))
        rig.scheduler.advance(FLUSH_MS)
        rig.delete(named(b"a"))
        rig.scheduler.advance(FLUSH_MS)
    assert messages(rig)[0] == ("insert", "kept")
    assert len(messages(rig)) < 9


def test_what_could_not_be_stored_is_said_later(delayed: DelayedRig) -> None:
    registry = Registry(delayed.engine)
    delayed.let_everything_arrive()
    registry.wake()
    delayed.create(named(b"a"))
    delayed.let_everything_arrive()
    delayed.scheduler.advance(FLUSH_MS)
    delayed.let_group_arrive(StorageFull("no room"))
    delayed.scheduler.advance(RETRY_MS)
    delayed.let_everything_arrive()
    assert messages(delayed) == [("insert", "a")]


@pytest.mark.parametrize("filled", [False, True])
def test_what_memory_had_no_room_for_is_said_later(rig: Rig, *, filled: bool) -> None:
    Registry(rig.engine).wake()
    if filled:
        rig.scheduler.settle()
    rig.create(named(b"a"))
    change_limits(rig.engine, Limits(max_memory_bytes=rig.storage.used_bytes))
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == []
    change_limits(rig.engine, Limits())
    rig.scheduler.advance(RETRY_MS)
    assert messages(rig) == [("insert", "a")]


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/json"])
def test_one_that_somebody_else_made_before_is_replaced(rig: Rig, content_type: bytes) -> None:
    rig.create(REGISTRY, b'{"theirs": 1}', content_type=content_type)
    rig.create(named(b"a"))
    Registry(rig.engine).wake()
    rig.scheduler.advance(FLUSH_MS)
    assert messages(rig) == [("insert", "a")]


def test_nobody_else_writes_it() -> None:
    require_writable(named(b"a"))
    with pytest.raises(MethodNotAllowed):
        require_writable(REGISTRY)


def test_a_first_reader_waits_until_it_is_filled_and_durable(delayed: DelayedRig) -> None:
    registry, readers = Registry(delayed.engine), list[object]()
    delayed.create(named(b"a"))
    delayed.let_everything_arrive()
    assert not registry.wake()
    registry.wait(lambda: readers.append(messages(delayed)))
    delayed.scheduler.settle()
    assert not readers
    delayed.let_everything_arrive()
    assert readers == [[("insert", "a")]]
    assert registry.wake()


def test_readers_wait_for_nothing_that_can_not_be_said(rig: Rig) -> None:
    """What is there of it can be read, and the rest is said when there is room."""
    registry, readers = Registry(rig.engine), list[object]()
    rig.create(named(b"a"))
    change_limits(rig.engine, Limits(max_memory_bytes=rig.storage.used_bytes))
    if not registry.wake():
        registry.wait(lambda: readers.append("reader"))
        rig.scheduler.settle()
        assert readers == ["reader"]
    change_limits(rig.engine, Limits())
    rig.scheduler.advance(RETRY_MS)
    assert messages(rig) == [("insert", "a")]


def test_readers_wait_while_it_begins_anew() -> None:
    delayed = DelayedRig()
    registry, readers = Registry(delayed.engine, RegistryTuning(max_past_messages=1)), list[object]()
    delayed.let_everything_arrive()
    registry.wake()
    for change in (delayed.create, delayed.delete):
        change(named(b"a"))
        delayed.let_everything_arrive()
        assert registry.wake()
        delayed.scheduler.advance(FLUSH_MS)
    assert not registry.wake()
    registry.wait(lambda: readers.append(messages(delayed)))
    delayed.let_everything_arrive()
    assert readers == [[]]


def test_readers_wait_on_when_it_begins_anew_before_it_was_durable() -> None:
    delayed = DelayedRig()
    registry, readers = Registry(delayed.engine, RegistryTuning(max_past_messages=0)), list[object]()
    delayed.create(named(b"a"))
    delayed.let_everything_arrive()
    delayed.delete(named(b"a"))
    delayed.scheduler.settle()
    assert not registry.wake()
    registry.wait(lambda: readers.append(messages(delayed)))
    delayed.let_group_arrive()
    delayed.scheduler.advance(FLUSH_MS)
    delayed.let_group_arrive()
    assert not readers
    delayed.let_everything_arrive()
    assert readers == [[]]
