"""Feeds: everybody gets everything once, in the order in which they came, from one encoding."""

from collections.abc import Callable

import pytest

from everbrook.engine import Batch
from everbrook.engine.feed import TURN_BYTES
from everbrook.engine.limits import Limits
from everbrook.protocol.errors import StreamGone, StreamNotFound
from tests.kit.fakes import RecordingReader
from tests.unit.engine.rig import JSON, DelayedRig, Rig


class NotingReader(RecordingReader):
    """A reader that notes in a list, shared with others, that it was served."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__()
        self._name = name
        self._notes = notes

    def deliver(self, batch: Batch) -> None:
        super().deliver(batch)
        self._notes.append(self._name)


class EncodingReader(RecordingReader):
    """A reader that needs an encoding of what it gets."""

    def __init__(self, key: str, encode: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._key = key
        self._encode = encode
        self.encoded: list[bytes] = []

    def deliver(self, batch: Batch) -> None:
        super().deliver(batch)
        self.encoded.append(batch.encoded(self._key, lambda: self._encode(batch.stored)))


def test_a_reader_gets_what_comes_after_it_joined(rig: Rig) -> None:
    rig.create(b"a", b"old")
    reader = rig.follow(b"a")
    rig.append(b"a", b"new")
    rig.scheduler.settle()
    assert reader.received == b"new"
    assert (reader.batches[0].page.start, reader.batches[0].page.end) == (3, 6)


def test_a_turn_delivers_a_limited_number_of_bytes(rig: Rig) -> None:
    rig.create(b"a")
    readers = [rig.follow(b"a") for _ in range(10)]
    rig.append(b"a", b"x" * (TURN_BYTES // 4))
    rig.scheduler.run_soon()
    assert [len(reader.batches) for reader in readers] == [1] * 4 + [0] * 6
    assert [reader.lagged for reader in readers] == [0] * 4 + [1] * 6


def test_a_batch_larger_than_the_limit_reaches_one_reader(rig: Rig) -> None:
    rig.create(b"a")
    readers = [rig.follow(b"a") for _ in range(2)]
    rig.append(b"a", b"x" * (TURN_BYTES + 1))
    rig.scheduler.run_soon()
    assert [reader.lagged for reader in readers] == [0, 1]


def test_delivery_waits_for_the_end_of_the_turn(rig: Rig) -> None:
    rig.create(b"a")
    reader = rig.follow(b"a")
    rig.append(b"a", b"new")
    assert reader.batches == []


def test_what_comes_within_one_turn_is_one_batch(rig: Rig) -> None:
    rig.create(b"a")
    reader = rig.follow(b"a")
    for message in (b"1", b"2", b"3"):
        rig.append(b"a", message)
    rig.scheduler.settle()
    assert [batch.stored for batch in reader.batches] == [b"123"]


def test_readers_are_served_in_the_order_in_which_they_came(rig: Rig) -> None:
    notes: list[str] = []
    rig.create(b"a")
    for name in "xyz":
        rig.follow(b"a", NotingReader(name, notes))
    rig.append(b"a", b"1")
    rig.scheduler.settle()
    assert notes == ["x", "y", "z"]


def test_who_comes_back_is_served_last(rig: Rig) -> None:
    notes: list[str] = []
    rig.create(b"a")
    readers = [rig.follow(b"a", NotingReader(name, notes)) for name in "xyz"]
    rig.engine.readers.leave(rig.open(b"a"), readers[0])
    rig.follow(b"a", readers[0])
    rig.append(b"a", b"1")
    rig.scheduler.settle()
    assert notes == ["y", "z", "x"]


def test_a_batch_is_encoded_once_for_all_who_want_it_alike(rig: Rig) -> None:
    calls: list[bytes] = []

    def encode(stored: bytes) -> bytes:
        calls.append(stored)
        return stored.upper()

    rig.create(b"a")
    readers = [EncodingReader("upper", encode) for _ in range(5)]
    for reader in readers:
        rig.follow(b"a", reader)
    rig.append(b"a", b"new")
    rig.scheduler.settle()
    assert calls == [b"new"]
    assert all(reader.encoded[0] is readers[0].encoded[0] for reader in readers)


def test_different_encodings_do_not_meet(rig: Rig) -> None:
    rig.create(b"a")
    upper, title = EncodingReader("upper", bytes.upper), EncodingReader("title", bytes.title)
    rig.follow(b"a", upper)
    rig.follow(b"a", title)
    rig.append(b"a", b"new")
    rig.scheduler.settle()
    assert (upper.encoded, title.encoded) == ([b"NEW"], [b"New"])


def test_a_reader_that_leaves_within_its_delivery_gets_no_more(rig: Rig) -> None:
    rig.create(b"a")
    stream = rig.open(b"a")
    leaving = rig.follow(b"a", RecordingReader(once=lambda reader: rig.engine.readers.leave(stream, reader)))
    staying = rig.follow(b"a")
    for message in (b"1", b"2"):
        rig.append(b"a", message)
        rig.scheduler.settle()
    assert (leaving.received, staying.received) == (b"1", b"12")


def test_a_reader_that_is_sent_away_within_a_delivery_gets_nothing(rig: Rig) -> None:
    rig.create(b"a")
    stream, late = rig.open(b"a"), RecordingReader()
    rig.follow(b"a", RecordingReader(once=lambda _: rig.engine.readers.leave(stream, late)))
    rig.follow(b"a", late)
    rig.append(b"a", b"1")
    rig.scheduler.settle()
    assert late.batches == []


def test_who_joins_while_a_delivery_is_due_gets_nothing_twice(rig: Rig) -> None:
    rig.create(b"a")
    early = rig.follow(b"a")
    rig.append(b"a", b"1")
    late = rig.follow(b"a")
    rig.append(b"a", b"2")
    rig.scheduler.settle()
    assert (early.received, late.received) == (b"12", b"2")


def test_who_leaves_before_a_delivery_that_is_due_gets_nothing(rig: Rig) -> None:
    rig.create(b"a")
    reader = rig.follow(b"a")
    rig.append(b"a", b"1")
    rig.engine.readers.leave(rig.open(b"a"), reader)
    rig.scheduler.settle()
    assert reader.batches == []


def test_leaving_twice_is_no_error(rig: Rig) -> None:
    rig.create(b"a")
    reader, stream = rig.follow(b"a"), rig.open(b"a")
    rig.engine.readers.leave(stream, reader)
    rig.engine.readers.leave(stream, reader)
    assert not stream.followed


def test_nothing_is_left_of_a_feed_that_everybody_left(rig: Rig) -> None:
    rig.create(b"a")
    stream = rig.open(b"a")
    for _ in range(3):
        reader = rig.follow(b"a")
        rig.append(b"a", b"1")
        rig.engine.readers.leave(stream, reader)
    assert stream.feed is None
    rig.scheduler.settle()
    rig.append(b"a", b"2")
    assert rig.scheduler.run_soon() == 0


def test_a_large_batch_comes_in_pages_of_whole_messages() -> None:
    rig = Rig(Limits(max_page_bytes=5))
    rig.create(b"a", content_type=JSON)
    readers = [rig.follow(b"a"), rig.follow(b"a")]
    rig.append(b"a", b'[1,22,333,"very long",5]', content_type=JSON)
    rig.scheduler.settle()
    for reader in readers:
        assert [batch.stored for batch in reader.batches] == [b"1,22,", b"333,", b'"very long",', b"5,"]
        assert [batch.page.up_to_date for batch in reader.batches] == [False, False, False, True]


def test_a_reader_that_leaves_between_two_pages_misses_the_second() -> None:
    rig = Rig(Limits(max_page_bytes=1))
    rig.create(b"a")
    stream = rig.open(b"a")
    leaving = rig.follow(b"a", RecordingReader(once=lambda reader: rig.engine.readers.leave(stream, reader)))
    staying = rig.follow(b"a")
    rig.append(b"a", b"1")
    rig.append(b"a", b"2")
    rig.scheduler.settle()
    assert (leaving.received, staying.received) == (b"1", b"12")


def test_readers_learn_that_a_stream_is_closed(rig: Rig) -> None:
    """§4.1: the end of a stream reaches those who wait."""
    rig.create(b"a")
    reader = rig.follow(b"a")
    rig.append(b"a", close=True)
    rig.scheduler.settle()
    assert [(batch.stored, batch.page.final) for batch in reader.batches] == [(b"", True)]


def test_the_last_data_comes_with_the_closure(rig: Rig) -> None:
    rig.create(b"a")
    reader = rig.follow(b"a")
    rig.append(b"a", b"last", close=True)
    rig.scheduler.settle()
    assert [(batch.stored, batch.page.final) for batch in reader.batches] == [(b"last", True)]


def test_readers_are_told_once_that_a_stream_was_deleted(rig: Rig) -> None:
    rig.create(b"a")
    readers = [rig.follow(b"a"), rig.follow(b"a")]
    rig.delete(b"a")
    rig.scheduler.settle()
    assert [[type(error) for error in reader.errors] for reader in readers] == [[StreamNotFound]] * 2


def test_readers_are_told_that_a_stream_was_soft_deleted(rig: Rig) -> None:
    """§4.2: forks live on, its own readers do not."""
    rig.create(b"a", b"1")
    rig.fork(b"f", b"a")
    reader, fork_reader = rig.follow(b"a"), rig.follow(b"f")
    rig.delete(b"a")
    rig.append(b"f", b"2")
    rig.scheduler.settle()
    assert [type(error) for error in reader.errors] == [StreamGone]
    assert (fork_reader.received, fork_reader.errors) == (b"2", [])


def test_an_append_to_the_source_does_not_wake_a_fork(rig: Rig) -> None:
    """§4.2: source appends after the fork never show nor wake."""
    rig.create(b"a", b"1")
    rig.fork(b"f", b"a")
    reader = rig.follow(b"f")
    rig.append(b"a", b"2")
    rig.scheduler.settle()
    assert reader.batches == []


def test_a_reader_of_a_deleted_stream_hears_nothing_of_its_successor(rig: Rig) -> None:
    rig.create(b"a")
    reader = rig.follow(b"a")
    rig.delete(b"a")
    rig.create(b"a")
    rig.append(b"a", b"new")
    rig.scheduler.settle()
    assert (reader.batches, len(reader.errors)) == ([], 1)


@pytest.mark.parametrize("readers", [1, 50])
def test_one_turn_serves_all_readers(rig: Rig, readers: int) -> None:
    rig.create(b"a")
    crowd = [rig.follow(b"a") for _ in range(readers)]
    for message in (b"1", b"2", b"3"):
        rig.append(b"a", message)
    assert rig.scheduler.run_soon() == 1
    assert {reader.received for reader in crowd} == {b"123"}


def test_readers_get_what_is_cut_in_the_same_turn(rig: Rig) -> None:
    """002 §2.2: whoever waited at the tail was there before the cut."""
    rig.create(b"a")
    reader = rig.follow(b"a")
    rig.append(b"a", b"1")
    rig.publish(b"a", 1)
    rig.append(b"a", b"2")
    rig.scheduler.settle()
    assert reader.received == b"12"


def test_readers_get_what_is_cut_in_the_same_group(delayed: DelayedRig) -> None:
    """002 §2.2."""
    delayed.create(b"a")
    delayed.let_everything_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"1")
    delayed.publish(b"a", 1)
    delayed.let_everything_arrive()
    delayed.scheduler.settle()
    assert reader.received == b"1"


def test_readers_get_what_several_cuts_in_one_group_take(delayed: DelayedRig) -> None:
    """002 §2.2: a group is stored as a whole before any of it is published."""
    delayed.create(b"a")
    delayed.let_everything_arrive()
    reader = delayed.follow(b"a")
    for place, body in enumerate((b"1", b"2", b"3"), 1):
        delayed.append(b"a", body)
        delayed.publish(b"a", place)
    delayed.let_everything_arrive()
    delayed.scheduler.settle()
    assert reader.received == b"123"


def test_cuts_and_an_end_in_one_group_end_a_reader(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_everything_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"1")
    delayed.publish(b"a", 1)
    delayed.delete(b"a")
    delayed.let_everything_arrive()
    delayed.scheduler.settle()
    assert [type(error) for error in reader.errors] == [StreamNotFound]


def test_the_end_of_a_fork_in_one_group_with_a_cut_takes_nothing_from_readers(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"0")
    delayed.fork(b"f", b"a")
    delayed.let_everything_arrive()
    reader = delayed.follow(b"a")
    delayed.append(b"a", b"1")
    delayed.delete(b"f")
    delayed.publish(b"a", 2)
    delayed.let_everything_arrive()
    delayed.scheduler.settle()
    assert reader.received == b"1"
