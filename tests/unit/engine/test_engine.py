"""The engine: names and their incarnations, one after the other and within one group."""

import pytest

from everbrook.engine.limits import Limits
from everbrook.protocol import Appended, Claim, Sentinel
from everbrook.protocol.errors import InvalidOffset, OffsetGone, StreamGone, StreamNotFound
from tests.unit.engine.rig import JSON, DelayedRig, Rig, residents

# Names and incarnations


def test_a_stream_that_is_created_anew_has_nothing_of_the_old_one(rig: Rig) -> None:
    rig.create(b"a", b"old data")
    rig.append(b"a", b"x", claim=Claim(b"p", 3, 0), close=True)
    rig.delete(b"a")
    rig.create(b"a")
    assert rig.content(b"a") == b""
    assert isinstance(rig.append(b"a", b"y", claim=Claim(b"p", 0, 0)), Appended)
    assert rig.content(b"a") == b"y"


def test_a_read_that_began_before_a_deletion_never_sees_the_successor(rig: Rig) -> None:
    rig.create(b"a", b"old")
    old = rig.open(b"a")
    rig.delete(b"a")
    rig.create(b"a", b"new data")
    for _ in range(2):
        with pytest.raises(StreamNotFound):
            rig.engine.readers.page(old, 0)


def test_a_read_that_began_before_a_soft_deletion_ends(rig: Rig) -> None:
    rig.create(b"a", b"old")
    old = rig.open(b"a")
    rig.fork(b"f", b"a")
    rig.delete(b"a")
    with pytest.raises(StreamGone):
        rig.engine.readers.page(old, 0)


# Pages that are read part by part


def test_a_part_is_cut_anywhere(rig: Rig) -> None:
    rig.create(b"a", b"old data")
    rig.append(b"a", b" and new")
    assert rig.engine.readers.read_part(rig.open(b"a"), 2, 11) == b"d data an"


def test_no_part_is_read_of_a_successor(rig: Rig) -> None:
    rig.create(b"a", b"old")
    old = rig.open(b"a")
    rig.delete(b"a")
    rig.create(b"a", b"new data")
    with pytest.raises(StreamNotFound):
        rig.engine.readers.read_part(old, 0, 3)


def test_no_part_is_read_of_what_lives_for_its_forks_alone(rig: Rig) -> None:
    rig.create(b"a", b"old")
    old = rig.open(b"a")
    rig.fork(b"f", b"a")
    rig.delete(b"a")
    with pytest.raises(StreamGone):
        rig.engine.readers.read_part(old, 0, 3)


def test_no_part_is_read_of_what_was_cut(rig: Rig) -> None:
    rig.create(b"a", b"one")
    rig.append(b"a", b"two")
    found = rig.open(b"a")
    rig.publish(b"a", 3)
    with pytest.raises(OffsetGone):
        rig.engine.readers.read_part(found, 2, 6)
    assert rig.engine.readers.read_part(found, 3, 5) == b"tw"


def test_what_an_ended_read_raises_does_not_grow(rig: Rig) -> None:
    rig.create(b"a")
    old = rig.open(b"a")
    rig.delete(b"a")
    depths = []
    for _ in range(5):
        with pytest.raises(StreamNotFound) as refusal:
            rig.engine.readers.page(old, 0)
        depths.append(len(refusal.traceback))
    assert len(set(depths)) == 1


def test_a_name_can_come_and_go_and_come_within_one_group(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"old")
    delayed.delete(b"a")
    delayed.create(b"a", b"new data")
    delayed.let_group_arrive()
    assert len(delayed.storage.groups) == 1
    assert delayed.content(b"a") == b"new data"


def test_a_name_can_pass_on_while_its_old_stream_is_read(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"old")
    delayed.let_group_arrive()
    reader = delayed.follow(b"a")
    delayed.delete(b"a")
    delayed.create(b"a", b"new data")
    assert delayed.content(b"a") == b"old"
    delayed.let_group_arrive()
    assert delayed.content(b"a") == b"new data"
    assert [type(error) for error in reader.errors] == [StreamNotFound]


def test_a_stream_can_come_and_go_within_one_group(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1", ttl_secs=1)
    delayed.append(b"a", b"2")
    delayed.delete(b"a")
    delayed.let_group_arrive()
    assert delayed.storage.used_bytes == 0
    assert residents(delayed.engine) == 0


def test_an_append_and_a_deletion_in_one_group_end_the_stream(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"1")
    delayed.delete(b"a")
    delayed.let_group_arrive()
    delayed.scheduler.settle()
    assert [type(error) for error in reader.errors] == [StreamNotFound]
    assert delayed.storage.used_bytes == 0


def test_a_chain_can_come_and_go_within_one_group(delayed: DelayedRig) -> None:
    """§4.2: source and middle are soft-deleted, the last fork takes them with it."""
    delayed.create(b"a", b"1")
    delayed.fork(b"b", b"a", body=b"2")
    delayed.fork(b"c", b"b", body=b"3")
    for name in (b"a", b"b", b"c"):
        delayed.delete(name)
    delayed.let_group_arrive()
    assert delayed.storage.used_bytes == 0
    assert residents(delayed.engine) == 0


def test_a_chain_that_is_deleted_from_below_keeps_what_is_not_deleted(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.fork(b"b", b"a", body=b"2")
    rig.fork(b"c", b"b", body=b"3")
    rig.delete(b"b")
    rig.delete(b"c")
    assert rig.content(b"a") == b"1"
    assert rig.engine.inspect().newest_streams == 1


def test_a_soft_deleted_stream_keeps_its_bytes_for_its_forks(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.fork(b"b", b"a")
    rig.fork(b"c", b"a")
    rig.delete(b"a")
    rig.delete(b"b")
    assert rig.content(b"c") == b"1"
    with pytest.raises(StreamGone):
        rig.open(b"a")


# Reading


@pytest.fixture
def paged() -> Rig:
    """Three messages, and pages that hold about one."""
    rig = Rig(Limits(max_page_bytes=4))
    rig.create(b"a", b"[1,22,333]", content_type=JSON)
    return rig


@pytest.mark.parametrize(
    "offset,start,end",
    [(Sentinel.BEGINNING, 0, 2), (0, 0, 2), (2, 2, 5), (5, 5, 9), (9, 9, 9), (Sentinel.NOW, 9, 9), (10**15, 9, 9)],
)
def test_a_page_begins_where_it_was_asked_for(paged: Rig, offset: int | Sentinel, start: int, end: int) -> None:
    page = paged.engine.readers.page(paged.open(b"a"), offset)
    assert (page.start, page.end, page.up_to_date) == (start, end, end == 9)


@pytest.mark.parametrize("offset", [1, 3, 4, 6, 7, 8])
def test_an_offset_within_a_message_is_refused(paged: Rig, offset: int) -> None:
    """§8: such an offset was never issued."""
    with pytest.raises(InvalidOffset):
        paged.engine.readers.page(paged.open(b"a"), offset)


def test_an_empty_page_has_no_bytes(paged: Rig) -> None:
    stream = paged.open(b"a")
    assert paged.engine.readers.read(stream, paged.engine.readers.page(stream, Sentinel.NOW)) == b""


def test_a_message_larger_than_a_page_comes_whole() -> None:
    rig = Rig(Limits(max_page_bytes=4))
    rig.create(b"a", b"0123456789")
    rig.append(b"a", b"x")
    page = rig.engine.readers.page(rig.open(b"a"), 0)
    assert (page.end, page.up_to_date) == (10, False)
