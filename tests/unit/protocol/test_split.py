"""Splits: a large batch that is split in pieces is what it would be at once."""

from array import array

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import pack_messages
from everbrook.protocol.errors import InvalidJson
from everbrook.protocol.json_mode import (
    LARGE_BYTES,
    MANY_VALUES,
    MAX_BATCH_VALUES,
    PIECE_BYTES,
    Split,
    Unplaced,
    is_large_batch,
    split_in_pieces,
)
from tests.kit.generated import generated

JSON = {b"content-type": b"application/json; charset=utf-8"}
LONG = b'"' + b"a," * PIECE_BYTES + b'"'

values = st.sampled_from(
    [
        *(b"1", b" 2 ", b"[1,[2,3],{}]", b'{"a":[1,2],"b":","}', b"\n1.5e3"),
        *(b'","', b'"],["', b'"\\","', '"é,"'.encode(), LONG),
    ]
)
broken = st.sampled_from([b"", b"1 2", b"]", b"[", b'"', b"{1}", b"nul", b'"\xff"', b"[" * 600 + b"]" * 600])


def split(body: bytes, steps: list[None] | None = None) -> Split:
    """Split to the end, and note the steps."""
    pieces = split_in_pieces(body)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            found: Split = end.value
            return found
        if steps is not None:
            steps.append(None)


def unpacked(found: Split, tail: int) -> tuple[bytes, tuple[int, ...]]:
    """Give what is stored of a split, as one that was made at once gives it."""
    data, ends = found.pack(tail)
    return data, tuple(ends)


def repeated(chosen: list[bytes]) -> list[bytes]:
    """Make several pieces of some values."""
    return chosen * (3 * PIECE_BYTES // (sum(map(len, chosen)) + len(chosen)) + 1)


@generated
@given(st.lists(values, min_size=1, max_size=5), st.integers(0, 10**12))
def test_a_batch_in_pieces_is_as_one_at_once(chosen: list[bytes], tail: int) -> None:
    body = b" [" + b",".join(repeated(chosen)) + b" ] "
    assert unpacked(split(body), tail) == pack_messages(body, tail)


@pytest.mark.parametrize("long, typecode", [([], "B"), ([255], "B"), ([256], "I"), ([256, 256], "I")])
def test_the_lengths_take_a_byte_each_while_they_fit(long: list[int], typecode: str) -> None:
    lengths = [2] * PIECE_BYTES + long + [2] * PIECE_BYTES
    found = split(b"[" + b"".join(b"1" * (length - 1) + b"," for length in lengths)[:-1] + b"]")
    assert (found.lengths.tolist(), found.lengths.typecode) == (lengths, typecode)


@generated
@given(st.lists(values, min_size=1, max_size=3), broken, st.floats(0, 1))
def test_a_batch_that_is_broken_anywhere_is_refused(chosen: list[bytes], wrong: bytes, where: float) -> None:
    found = repeated(chosen)
    found.insert(round(where * len(found)), wrong)
    body = b"[" + b",".join(found) + b"]"
    with pytest.raises(InvalidJson):
        pack_messages(body, 0)
    with pytest.raises(InvalidJson):
        split(body).pack(0)


@pytest.mark.parametrize("end", [b"", b",]", b"] 1", b"}", b"],"])
def test_a_batch_that_does_not_end_as_it_should_is_refused(end: bytes) -> None:
    with pytest.raises(InvalidJson):
        split(b"[" + b"1," * PIECE_BYTES + b"1" + end).pack(0)


def test_a_comma_at_the_end_is_refused_also_where_a_piece_ends() -> None:
    with pytest.raises(InvalidJson, match="a value is missing after a comma"):
        split(b"[" + b"1," * (PIECE_BYTES // 2 + 1) + b"]").pack(0)


def test_a_step_splits_one_piece() -> None:
    steps: list[None] = []
    split(b"[" + b"1," * (5 * PIECE_BYTES) + b"1]", steps)
    assert len(steps) == 9


def test_a_value_that_is_longer_than_a_piece_is_tried_again_with_twice_as_much() -> None:
    steps: list[None] = []
    body = b"[" + b'"' + b"a," * (8 * PIECE_BYTES) + b'"' + b"]"
    assert unpacked(split(body, steps), 0) == pack_messages(body, 0)
    assert len(steps) == 5


def test_a_step_of_the_shortest_values_splits_some_thousands() -> None:
    steps: list[None] = []
    split(b"[" + b"1," * 100_000 + b"1]", steps)
    assert len(steps) >= 100_000 // 5_000


def test_the_ends_of_very_many_messages_are_copied_at_once() -> None:
    assert isinstance(split(b"[" + b"1," * MANY_VALUES + b"1]").pack(7)[1], array)


def test_the_ends_of_very_many_messages_are_computed_in_steps() -> None:
    found = split(b"[" + b"1," * MANY_VALUES + b"1]")
    expected = found.pack(7)
    found.tail, found.patience = None, 1
    with pytest.raises(Unplaced) as raised:
        found.pack(7)
    assert raised.value.tail == 7
    assert len(list(found.place(7))) >= MANY_VALUES // 20_000
    found.patience = 1
    assert found.pack(7) == expected
    with pytest.raises(Unplaced):
        found.pack(8)


def test_ends_that_were_computed_often_enough_are_computed_at_once() -> None:
    found = split(b"[" + b"1," * PIECE_BYTES + b"1]")
    found.patience = 1
    list(found.place(7))
    assert list(found.pack(8)[1])[:2] == [10, 12]


@pytest.mark.parametrize(
    "body, headers, large",
    [
        (b"[" + b"1," * MANY_VALUES + b"1]", JSON, True),
        (b"\n [" + b"1," * MANY_VALUES + b"1]", JSON, True),
        (b"[" + b"1," * MANY_VALUES + b"1]", {b"content-type": b"text/plain"}, False),
        (b"[" + b"1," * MANY_VALUES + b"1]", {}, False),
        (b'"' + b"1," * MANY_VALUES + b'"', JSON, False),
        (b"[" + b"111111," * (MANY_VALUES - 1) + b"1]", JSON, False),
        (b"[" + b"1," * MAX_BATCH_VALUES + b"1]", JSON, False),
    ],
)
def test_only_a_batch_of_many_values_is_split_so(body: bytes, headers: dict[bytes, bytes], *, large: bool) -> None:
    assert len(body) >= LARGE_BYTES
    assert is_large_batch(headers, body) is large
