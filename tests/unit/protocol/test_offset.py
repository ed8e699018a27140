"""Offsets: positions in a stream."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Sentinel, format_offset
from everbrook.protocol.errors import InvalidOffset
from everbrook.protocol.offset import OFFSET_DIGITS, parse_fork_offset, parse_offset
from tests.kit.generated import generated

ZERO_ALIAS = b"0000000000000000_0000000000000000"  # another server's zero, which clients send when forking

LAST = 10**OFFSET_DIGITS - 1

positions = st.integers(0, LAST)


@generated
@given(positions)
def test_an_issued_offset_reads_back_as_the_position_it_names(position: int) -> None:
    """§8: offsets are persistent and unique."""
    assert parse_offset(format_offset(position)) == position


@generated
@given(positions, positions)
def test_offsets_sort_as_text_as_their_positions_do(one: int, other: int) -> None:
    """§8: lexicographically sortable."""
    assert (format_offset(one) < format_offset(other)) == (one < other)


@generated
@given(positions)
def test_an_issued_offset_is_digits_and_so_never_a_sentinel_nor_query_syntax(position: int) -> None:
    """§8: the sentinels are never issued, and an offset holds none of `, & = ? /`."""
    token = format_offset(position)

    assert (token.isdigit(), len(token)) == (True, 16)


def test_the_greatest_offset_is_all_nines() -> None:
    """§8: sixteen digits."""
    assert format_offset(LAST) == b"9" * 16


def test_the_sentinels_are_read_as_names_of_positions() -> None:
    """§8."""
    assert parse_offset(b"-1") is Sentinel.BEGINNING
    assert parse_offset(b"now") is Sentinel.NOW


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"0",
        b"000000000000000",
        b"00000000000000000",
        b"0000000000000000 ",
        b" 000000000000000",
        b"000000000000000\n",
        b"0000000000000000\n",
        b"0000000000000000\0",
        b"0000000000000,01",
        b"0000000000000/01",
        b"0000_0000_0000_0",
        b"+000000000000001",
        b"-000000000000001",
        b"0000000000000.01",
        "\N{ARABIC-INDIC DIGIT ZERO}".encode() * 8,  # sixteen bytes that are digits to Unicode
        b"-2",
        b"NOW",
        b"now ",
        b"../x",
        ZERO_ALIAS,
    ],
)
def test_what_this_server_never_issued_is_refused(text: bytes) -> None:
    """§5.6: a malformed offset is 400."""
    with pytest.raises(InvalidOffset, match="offset must be one that this server issued"):
        parse_offset(text)


@generated
@given(st.binary(max_size=20))
def test_any_text_is_a_sentinel_an_issued_offset_or_refused(text: bytes) -> None:
    try:
        offset = parse_offset(text)
    except InvalidOffset:
        return
    assert text in {b"-1", b"now"} if isinstance(offset, Sentinel) else format_offset(offset) == text


@pytest.mark.parametrize("text", [ZERO_ALIAS, b"-1", b"0000000000000000"])
def test_a_fork_at_the_beginning_can_be_asked_for_in_three_ways(text: bytes) -> None:
    """§4.2, gaps G-05 and G-18."""
    assert parse_fork_offset(text) == 0


def test_a_fork_offset_is_an_issued_offset() -> None:
    """§4.2."""
    assert parse_fork_offset(b"0000000000000042") == 42


@pytest.mark.parametrize("text", [b"now", b"9999999999999999_9999999999999999", b"", b"42", b"-2"])
def test_a_fork_offset_that_names_no_position_is_refused(text: bytes) -> None:
    """§4.2: invalid offset format is 400; `now` is said by leaving the header out."""
    with pytest.raises(InvalidOffset):
        parse_fork_offset(text)
