"""Lineages: a fork's bytes, whoever of its chain holds them (§4.2)."""

import tracemalloc
from itertools import pairwise

import pytest

from everbrook.protocol.errors import InvalidOffset
from tests.engine.rig import JSON, Rig, residents

DEPTH = 2000


def chain(rig: Rig, depth: int) -> None:
    """Make a chain of forks in which each adds a byte."""
    rig.create(b"0", b"x")
    for number in range(depth):
        rig.fork(b"%d" % (number + 1), b"%d" % number, body=b"y")


def pages(rig: Rig, name: bytes, offsets: list[int]) -> list[bytes]:
    """Read what lies between offsets, each range of two of them."""
    stream = rig.open(name)
    return [stream.lineage.read(start, end) for start, end in pairwise(offsets)]


def test_a_fork_begins_with_its_sources_bytes(rig: Rig) -> None:
    rig.create(b"a", b"one")
    rig.append(b"a", b"two")
    rig.fork(b"f", b"a", 3, body=b"TWO")
    assert (rig.content(b"a"), rig.content(b"f")) == (b"onetwo", b"oneTWO")


def test_source_and_fork_go_their_own_ways(rig: Rig) -> None:
    rig.create(b"a", b"one")
    rig.fork(b"f", b"a")
    rig.append(b"a", b"source")
    rig.append(b"f", b"fork")
    assert (rig.content(b"a"), rig.content(b"f")) == (b"onesource", b"onefork")


def test_a_fork_of_a_fork_reads_all_three(rig: Rig) -> None:
    rig.create(b"a", b"aa")
    rig.fork(b"b", b"a", body=b"bb")
    rig.fork(b"c", b"b", body=b"cc")
    assert rig.content(b"c") == b"aabbcc"
    assert pages(rig, b"c", [0, 1, 3, 5, 6]) == [b"a", b"ab", b"bc", b"c"]


def test_a_fork_at_an_offset_of_its_grandparent_has_nothing_of_its_parent(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.append(b"a", b"2")
    rig.fork(b"b", b"a", body=b"b")
    rig.fork(b"c", b"b", 1, body=b"c")
    assert rig.content(b"c") == b"1c"
    rig.append(b"b", b"more")
    assert rig.content(b"c") == b"1c"


def test_a_fork_at_the_very_beginning_has_nothing_of_its_source(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.fork(b"f", b"a", 0)
    assert rig.content(b"f") == b""
    rig.append(b"f", b"own")
    assert rig.content(b"f") == b"own"


def test_forks_of_an_empty_stream_are_empty(rig: Rig) -> None:
    rig.create(b"a")
    rig.fork(b"b", b"a")
    rig.fork(b"c", b"b", body=b"c")
    assert (rig.content(b"b"), rig.content(b"c")) == (b"", b"c")


def test_a_cut_within_a_message_is_a_boundary_on_the_fork_alone(rig: Rig) -> None:
    rig.create(b"a", b"hello")
    rig.fork(b"f", b"a", 0, 3, body=b"LO")
    assert rig.content(b"f") == b"helLO"
    fork, source = rig.open(b"f"), rig.open(b"a")
    assert rig.engine.page(fork, 3).start == 3
    with pytest.raises(InvalidOffset):
        rig.engine.page(source, 3)
    with pytest.raises(InvalidOffset):
        rig.engine.page(fork, 4)


def test_a_sub_offset_reaches_only_into_what_the_source_itself_has(rig: Rig) -> None:
    rig.create(b"a", b"hello")
    rig.fork(b"f", b"a", 0, 3)
    rig.fork(b"g", b"f", 0, 2, body=b"!")
    assert rig.content(b"g") == b"he!"
    stream = rig.open(b"f")
    assert [stream.append_end(offset) for offset in range(3)] == [3, 3, 3]


def test_a_cut_before_a_sources_own_part_is_a_boundary_too(rig: Rig) -> None:
    rig.create(b"a", b"hello")
    rig.fork(b"b", b"a", body=b"b")
    rig.fork(b"c", b"b", 0, 3, body=b"c")
    stream = rig.open(b"c")
    assert [stream.boundary_after(offset) for offset in range(4)] == [3, 3, 3, 4]
    assert [stream.append_end(offset) for offset in range(4)] == [3, 3, 3, 4]


def test_a_sub_offset_counts_the_messages_of_one_append(rig: Rig) -> None:
    rig.create(b"a", b"[1,2,3]", content_type=JSON)
    rig.append(b"a", b"[4]", content_type=JSON)
    rig.fork(b"f", b"a", 0, 2)
    assert rig.content(b"f") == b"1,2,"
    rig.fork(b"g", b"a", 2, 2)
    assert rig.content(b"g") == b"1,2,3,"


def test_a_chain_of_many_forks_is_read(rig: Rig) -> None:
    chain(rig, DEPTH)
    last = b"%d" % DEPTH
    assert rig.content(last) == b"x" + b"y" * DEPTH
    assert rig.engine.page(rig.open(last), 1000).start == 1000


def test_a_chain_of_many_forks_is_loaded(rig: Rig) -> None:
    chain(rig, DEPTH)
    rig.restart()
    assert rig.content(b"%d" % DEPTH) == b"x" + b"y" * DEPTH
    assert rig.open(b"0").fork_count == 1


def test_a_chain_of_many_forks_goes_in_one_change(rig: Rig) -> None:
    """§4.2: the last fork's end removes its soft-deleted sources, up the chain."""
    chain(rig, DEPTH)
    for number in range(DEPTH):
        rig.delete(b"%d" % number)
    before = rig.engine.last_change
    rig.delete(b"%d" % DEPTH)
    assert rig.engine.last_change == before + 1
    assert rig.storage.used_bytes == 0
    assert residents(rig.engine) == 0


def test_a_chain_takes_memory_in_proportion_to_its_depth() -> None:
    taken = []
    for depth in (200, 800):
        rig = Rig()
        tracemalloc.start()
        chain(rig, depth)
        taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert taken[1] < 6 * taken[0]
