"""Segments: a log goes on in a new file when one is large enough, and is read across all of them."""

from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from everbrook.protocol import Producer
from everbrook.storage import Record
from tests.storage.drafts import Draft
from tests.storage.files.opening import commit, open_files, segments


@pytest.mark.parametrize("json", [False, True], ids=["bytes", "json"])
@pytest.mark.parametrize("reopened", [False, True], ids=["hot", "cold"])
def test_ranges_and_boundaries_go_across_segments(tmp_path: Path, *, json: bool, reopened: bool) -> None:
    chance = Random(3)
    source = Draft(b"s", 1)
    stream = Draft(b"a", 2, json=json, source=source, offset=4)
    storage = open_files(tmp_path, segment_bytes=200)
    commit(storage, (source.write(b"base"),), (stream.write(),))
    for _ in range(20):
        messages = [chance.randbytes(chance.randint(1, 20)) for _ in range(3 if json else 1)]
        commit(storage, (stream.write(*messages),))
    assert len(segments(tmp_path)) > 5
    if reopened:
        storage.close()
        storage = open_files(tmp_path, segment_bytes=200)
    for start, end in combinations(range(4, stream.head.tail + 1, 7), 2):
        assert storage.read(2, start, end) == stream.data[start - 4 : end - 4]
    for offset in range(4, stream.head.tail):
        assert storage.boundary_at_or_before(2, offset) == max(end for end in stream.boundaries if end <= offset)
        assert storage.boundary_after(2, offset) == min(end for end in stream.boundaries if end > offset)
        assert storage.append_end(2, offset) == min(end for end in stream.append_ends if end > offset)
    storage.close()


def test_a_segment_that_holds_no_bytes_is_passed_over(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=1)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    for seq in range(3):
        commit(storage, (stream.write(producer=(b"p", Producer(0, seq, seq))),))
    commit(storage, (stream.write(b"two"),))
    assert storage.read(1, 0, 6) == b"onetwo"
    assert storage.boundary_after(1, 0) == 3
    assert storage.boundary_after(1, 3) == 6
    storage.close()


def test_producers_are_carried_on_from_segment_to_segment(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=500)
    stream = Draft(b"a", 1)
    for number in range(12):
        producer = (b"%d" % number, Producer(0, 0, number))
        forgotten = (b"%d" % (number - 1),) if number % 3 == 2 else ()
        commit(storage, (stream.write(b"x" * 700, producer=producer, forgotten=forgotten),))
    storage.close()
    storage = open_files(tmp_path, segment_bytes=500)
    assert storage.load(b"a") == Record(stream.head, stream.producers)
    assert len(stream.producers) == 8
    storage.close()


def test_many_producers_do_not_fill_the_segments_with_themselves(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=1000)
    stream = Draft(b"a", 1)
    commit(storage, *((stream.write(b"x", producer=(b"%d" % n, Producer(0, 0, n))),) for n in range(1000)))
    for _ in range(100):
        commit(storage, (stream.write(b"x" * 100),))
    assert len(segments(tmp_path)) < 4
    storage.close()


def test_a_hot_stream_is_followed_into_new_segments(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=100)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"first"),))
    assert storage.load(b"a") == Record(stream.head, {})
    for number in range(30):
        commit(storage, (stream.write(b"%d" % number * 30),))
        if number % 4 == 0:
            assert storage.load(b"a") == Record(stream.head, {})
            assert storage.read(1, 0, stream.head.tail) == stream.data
    storage.close()


def test_what_is_not_applied_is_not_seen_by_a_stream_that_comes_back(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=1)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    visible = stream.head
    storage.close()
    storage = open_files(tmp_path, segment_bytes=1)
    storage.persist([(stream.write(b"two"),)])
    assert storage.load(b"a") == Record(visible, {})
    assert storage.boundary_at_or_before(1, 99) == 3
    storage.close()
