"""Records: a scan finds all that is whole around damage, and never gives other bytes than were written."""

import pytest
from hypothesis import given, settings, strategies as st

from everbrook.storage.record import Framer, LogScan, Record, Unreadable, seed_of

SEED = seed_of(7, 1, 1)
RECORDS: list[tuple[tuple[int, ...], bytes]] = [
    ((1,), b"first"),
    ((2, 3), b"second, of two streams"),
    ((4,), b"third"),
    (tuple(range(10, 18)), b"fourth, of eight streams"),
    ((1,), b"fifth"),
]


def log_of(records: list[tuple[tuple[int, ...], bytes]], seed: int = SEED) -> tuple[bytes, list[tuple[int, int]]]:
    """Frame records and seal them. Gives the log, and for each record where its body begins and ends."""
    framer, log, places = Framer(seed), b"", []
    for number, (streams, body) in enumerate(records, 1):
        log += framer.frame(number, number - 1, streams, body) + body
        places.append((len(log) - len(body), len(log)))
    return log + framer.frame(len(records), len(records), (), b""), places


def scan(log: bytes, seed: int = SEED) -> list[Record | Unreadable]:
    return list(LogScan(log, seed).items())


def bodies(items: list[Record | Unreadable]) -> list[bytes]:
    return [item.body for item in items if isinstance(item, Record) and not item.seal]


def flipped(log: bytes, position: int, bit: int) -> bytes:
    return log[:position] + bytes([log[position] ^ 1 << bit]) + log[position + 1 :]


LOG, PLACES = log_of(RECORDS)
BODIES = [body for _, body in RECORDS]


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_a_flipped_bit_in_a_body_costs_that_record_and_names_its_streams(number: int) -> None:
    start, end = PLACES[number]
    for position in range(start, end):
        for bit in range(8):
            items = scan(flipped(LOG, position, bit) + bytes(100))
            assert bodies(items) == BODIES[:number] + BODIES[number + 1 :]
            [lost] = [item for item in items if isinstance(item, Unreadable)]
            assert (lost.number, lost.streams) == (number + 1, RECORDS[number][0])


def test_a_flipped_bit_in_a_frame_costs_nothing() -> None:
    """The last frame is that of the seal."""
    frames = set(range(len(LOG))) - {place for start, end in PLACES for place in range(start, end)}
    for position in sorted(frames):
        for bit in range(8):
            assert bodies(scan(flipped(LOG, position, bit) + bytes(100))) == BODIES


def test_a_damaged_frame_of_many_streams_is_an_unreadable_range() -> None:
    log, places = log_of([((1,), b"first"), (tuple(range(9)), b"second"), ((1,), b"third")])
    items = scan(flipped(log, places[0][1] + 9, 0))
    assert bodies(items) == [b"first", b"third"]
    assert Unreadable(places[0][1], places[1][1]) in items


def test_zeros_end_the_log() -> None:
    items = scan(LOG + bytes(5_000))
    assert (bodies(items), items[-1].end) == (BODIES, len(LOG))
    assert scan(bytes(5_000)) == scan(b"") == []


def test_a_record_that_was_cut_off_anywhere_is_left_out() -> None:
    start, end = PLACES[-2][1], PLACES[-1][1]
    for place in range(start, end):
        assert bodies(scan(LOG[:place] + bytes(end - place + 50))) == BODIES[:-1]


@settings(max_examples=200, deadline=None, database=None)
@given(data=st.data(), use=st.integers(2, 5), first=st.integers(1, 9))
def test_what_an_earlier_use_left_never_verifies(data: st.DataObject, use: int, first: int) -> None:
    """Also where it lies just behind the new records, and has their numbers and lengths."""
    stale, _ = log_of(RECORDS * 3)
    seed = seed_of(7, first, use)
    count = data.draw(st.integers(0, len(RECORDS)))
    log, _ = log_of(RECORDS[:count], seed)
    items = scan(log + stale[data.draw(st.integers(0, len(stale))) :], seed)
    assert bodies(items) == BODIES[:count]
    assert not any(isinstance(item, Unreadable) for item in items)


def test_a_body_that_looks_like_a_record_is_not_taken_for_one() -> None:
    """A client knows neither the salt nor the seed."""
    forged, _ = log_of([((9,), b"forged")], seed_of(8, 1, 1))
    log, places = log_of([((1,), forged), ((2,), b"second")])
    assert bodies(scan(log)) == [forged, b"second"]
    assert bodies(scan(flipped(log, places[0][0], 0))) == [b"second"]


def test_every_file_has_another_seed() -> None:
    seeds = {seed_of(salt, first, use) for salt in range(5) for first in range(5) for use in range(5)}
    assert len(seeds) == 125
