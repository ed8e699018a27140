"""The query of a read: where to begin, and how to wait."""

import pytest

from everbrook.protocol.errors import InvalidOffset, InvalidQuery
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.query import Live, ReadQuery, parse_read_query


@pytest.mark.parametrize(
    "query, read",
    [
        (b"", ReadQuery(Sentinel.BEGINNING)),
        (b"offset=-1", ReadQuery(Sentinel.BEGINNING)),
        (b"offset=now", ReadQuery(Sentinel.NOW)),
        (b"offset=0000000000000007", ReadQuery(7)),
        (b"offset=%30000000000000007", ReadQuery(7)),
        (b"offset=now&live=long-poll", ReadQuery(Sentinel.NOW, Live.LONG_POLL)),
        (b"live=sse&offset=-1", ReadQuery(Sentinel.BEGINNING, Live.SSE)),
        (b"cursor=12&live=long-poll&offset=-1", ReadQuery(Sentinel.BEGINNING, Live.LONG_POLL, 12)),
        (b"cursor=12", ReadQuery(Sentinel.BEGINNING, cursor=12)),
    ],
)
def test_a_query_says_where_to_begin_and_how_to_wait(query: bytes, read: ReadQuery) -> None:
    """§5.6 to §5.8; a missing offset is the beginning."""
    assert parse_read_query(query) == read


@pytest.mark.parametrize("query", [b"x=1&x=2", b"&&", b"Offset=zz", b"handle=%zz", b"=", b"offset2=a"])
def test_parameters_of_others_are_left_alone(query: bytes) -> None:
    """§11.1: extensions may add parameters."""
    assert parse_read_query(query) == ReadQuery(Sentinel.BEGINNING)


@pytest.mark.parametrize("query", [b"offset=a", b"offset=", b"offset", b"offset=0,1", b"offset=0%201", b"offset=0+1"])
def test_a_malformed_offset_is_refused(query: bytes) -> None:
    """§5.6."""
    with pytest.raises(InvalidOffset):
        parse_read_query(query)


@pytest.mark.parametrize("query", [b"offset=-1&offset=-1", b"live=sse&live=sse&offset=-1", b"cursor=1&cursor=2"])
def test_a_parameter_given_twice_is_refused(query: bytes) -> None:
    """§5.6: whichever one a cache keyed on, the other was meant."""
    with pytest.raises(InvalidQuery, match="must be given once"):
        parse_read_query(query)


@pytest.mark.parametrize("mode", [b"long-poll", b"sse"])
def test_a_live_read_needs_an_offset(mode: bytes) -> None:
    """§5.7, §5.8: the offset is required."""
    with pytest.raises(InvalidQuery, match=f"live={mode.decode()} needs an offset"):
        parse_read_query(b"live=" + mode)


@pytest.mark.parametrize("value", [b"", b"true", b"SSE", b"longpoll", b"sse%20"])
def test_an_unknown_way_to_wait_is_refused(value: bytes) -> None:
    """§5.7: 400 for invalid parameters."""
    with pytest.raises(InvalidQuery, match="live must be long-poll or sse"):
        parse_read_query(b"offset=-1&live=" + value)


@pytest.mark.parametrize("value", [b"%", b"%4", b"%zz"])
def test_a_broken_escape_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidQuery, match="two hexadecimal digits"):
        parse_read_query(b"offset=" + value)


def test_a_cursor_that_is_no_number_is_refused() -> None:
    """Gap G-22."""
    with pytest.raises(InvalidQuery, match="cursor must be"):
        parse_read_query(b"offset=-1&live=long-poll&cursor=abc")
