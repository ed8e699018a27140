"""Lineages: a fork's bytes, whoever of its chain holds them (§4.2)."""

import tracemalloc
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from everbrook.engine.limits import Limits
from everbrook.engine.readers import MAX_PAGE_PARTS
from everbrook.protocol import Existing
from everbrook.protocol.errors import ForkTooDeep, InvalidOffset
from everbrook.storage import MemoryStorage
from tests.kit.generated import generated
from tests.kit.work import count_lines
from tests.unit.engine.rig import JSON, Rig, residents

DEPTH = 2000


class CountingStorage(MemoryStorage):
    """A storage that counts the streams that it reads."""

    reads = 0

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        self.reads += 1
        return super().read(incarnation, start, end)


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
    assert rig.engine.readers.page(fork, 3).start == 3
    with pytest.raises(InvalidOffset):
        rig.engine.readers.page(source, 3)
    with pytest.raises(InvalidOffset):
        rig.engine.readers.page(fork, 4)


def test_a_sub_offset_reaches_only_into_what_the_source_itself_has(rig: Rig) -> None:
    rig.create(b"a", b"hello")
    rig.fork(b"f", b"a", 0, 3)
    rig.fork(b"g", b"f", 0, 2, body=b"!")
    assert rig.content(b"g") == b"he!"
    stream = rig.open(b"f")
    assert [stream.lineage.append_end(offset) for offset in range(3)] == [3, 3, 3]


def test_a_cut_before_a_sources_own_part_is_a_boundary_too(rig: Rig) -> None:
    rig.create(b"a", b"hello")
    rig.fork(b"b", b"a", body=b"b")
    rig.fork(b"c", b"b", 0, 3, body=b"c")
    stream = rig.open(b"c")
    assert [stream.lineage.boundary_after(offset) for offset in range(4)] == [3, 3, 3, 4]
    assert [stream.lineage.append_end(offset) for offset in range(4)] == [3, 3, 3, 4]


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
    assert rig.engine.readers.page(rig.open(last), 1000).start == 1000


def test_the_holder_of_an_offset_is_found_in_a_few_steps_however_deep_the_chain(rig: Rig) -> None:
    chain(rig, DEPTH)
    lineage = rig.open(b"%d" % DEPTH).lineage
    lines = [count_lines(partial(lineage.is_boundary, offset)) for offset in range(0, DEPTH, 97)]
    assert max(lines) < 200


def test_a_page_has_bytes_of_a_bounded_number_of_streams() -> None:
    storage = CountingStorage()
    rig = Rig(storage=storage)
    chain(rig, DEPTH)
    stream = rig.open(b"%d" % DEPTH)
    page = rig.engine.readers.page(stream, 100)
    assert (page.start, page.end, page.up_to_date) == (100, 100 + MAX_PAGE_PARTS, False)
    assert rig.engine.readers.page(stream, 100, until=110).end == 110
    storage.reads = 0
    assert rig.engine.readers.read(stream, page) == b"y" * MAX_PAGE_PARTS
    assert storage.reads == MAX_PAGE_PARTS


@generated
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=30), st.integers(0, 40))
def test_a_chain_is_searched_as_if_part_by_part(forks: list[tuple[int, int]], offset: int) -> None:
    """Each fork begins some bytes before the end of the one before it, and adds bytes of its own."""
    rig, content, name = Rig(), b"x", b"0"
    rig.create(name, b"x")
    for number, (own, back) in enumerate(forks):
        source, name = name, b"%d" % (number + 1)
        content = content[: max(0, len(content) - back)]
        rig.fork(name, source, len(content))
        for _ in range(own):
            rig.append(name, b"%c" % (97 + number % 26))
            content += b"%c" % (97 + number % 26)
    offset = min(offset, len(content))
    lineage = rig.open(name).lineage
    assert rig.content(name) == content
    assert lineage.read(offset, len(content)) == content[offset:]
    assert all(lineage.is_boundary(each) for each in range(len(content)))
    assert list(lineage.messages(0, len(content)).ends) == list(range(1, len(content) + 1))


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


def test_a_fork_has_a_bounded_number_of_streams_before_it() -> None:
    rig = Rig(Limits(max_fork_depth=2))
    chain(rig, 2)
    with pytest.raises(ForkTooDeep, match="at most 2 streams before it in its chain, this one would have 3"):
        rig.fork(b"3", b"2")
    rig.fork(b"other", b"1")
    assert isinstance(rig.fork(b"2", b"1", 2), Existing)


def test_a_chain_that_is_deeper_than_it_may_be_stays_readable_and_can_be_appended_to() -> None:
    rig = Rig()
    chain(rig, 5)
    rig.limits = Limits(max_fork_depth=2)
    rig.restart()
    rig.append(b"5", b"z")
    assert rig.content(b"5") == b"xyyyyyz"
    with pytest.raises(ForkTooDeep):
        rig.fork(b"6", b"5")
