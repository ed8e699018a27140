"""The query of a read: where to begin, and how to wait."""

import pytest

from everbrook.protocol import ReadQuery, Sentinel
from everbrook.protocol.errors import InvalidOffset, InvalidQuery
from everbrook.protocol.query import Live, parse_lookup, parse_read_query, require_utf8


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
        (b"max_bytes=100", ReadQuery(Sentinel.BEGINNING, max_bytes=100)),
    ],
)
def test_a_query_says_where_to_begin_and_how_to_wait(query: bytes, read: ReadQuery) -> None:
    """§5.6 to §5.8; a missing offset is the beginning."""
    assert parse_read_query(query) == read


@pytest.mark.parametrize("query", [b"max_bytes=0", b"max_bytes=", b"max_bytes=-1", b"max_bytes=1&live=sse&offset=-1"])
def test_a_bound_is_a_number_for_reads_that_do_not_wait(query: bytes) -> None:
    with pytest.raises(InvalidQuery, match="max_bytes"):
        parse_read_query(query)


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


@pytest.mark.parametrize(
    "query, read",
    [
        (b"offset=0000000000000003&until=0000000000000007", ReadQuery(3, until=7)),
        (b"until=0000000000000000", ReadQuery(Sentinel.BEGINNING, until=0)),
        (b"at=1800000000000", ReadQuery(Sentinel.BEGINNING, at=1_800_000_000_000)),
        (b"at=0", ReadQuery(Sentinel.BEGINNING, at=0)),
        (b"at=1970-01-01T00:00:01.5Z", ReadQuery(Sentinel.BEGINNING, at=1500)),
        (b"at=1970-01-01T01:00:00%2B01:00", ReadQuery(Sentinel.BEGINNING, at=0)),
        (b"last=10", ReadQuery(Sentinel.BEGINNING, last=10)),
        (b"last=0&live=sse", ReadQuery(Sentinel.BEGINNING, Live.SSE, last=0)),
        (b"at=5&live=long-poll", ReadQuery(Sentinel.BEGINNING, Live.LONG_POLL, at=5)),
        (b"skip=3", ReadQuery(Sentinel.BEGINNING, skip=3)),
        (b"offset=0000000000000003&skip=2&live=sse", ReadQuery(3, Live.SSE, skip=2)),
        (b"format=frames&last=1", ReadQuery(Sentinel.BEGINNING, last=1, frames=True)),
    ],
)
def test_a_program_says_where_to_begin_and_to_end(query: bytes, read: ReadQuery) -> None:
    """Ours: reads for machines."""
    assert parse_read_query(query) == read


@pytest.mark.parametrize(
    "query, seeks, plain",
    [
        (b"", False, True),
        (b"offset=0000000000000003&live=sse", False, True),
        (b"skip=0", True, False),
        (b"until=0000000000000003", False, False),
        (b"format=frames", False, False),
        (b"at=0", True, False),
        (b"last=0", True, False),
        (b"skip=1", True, False),
    ],
)
def test_a_query_knows_whether_its_beginning_has_to_be_looked_for(query: bytes, seeks: object, plain: object) -> None:
    read = parse_read_query(query)

    assert (read.seeks, read.plain) == (seeks, plain)


@pytest.mark.parametrize("query", [b"offset=-1&at=0", b"at=0&last=1", b"offset=now&last=1", b"offset=-1&at=1&last=1"])
def test_a_read_has_one_beginning(query: bytes) -> None:
    with pytest.raises(InvalidQuery, match=r"a read begins at one of offset, at and last, got \w+ and "):
        parse_read_query(query)


@pytest.mark.parametrize("bound", [b"until=0000000000000003", b"format=frames"])
def test_a_read_that_waits_has_no_end_and_no_frames(bound: bytes) -> None:
    with pytest.raises(InvalidQuery, match="until, max_bytes and format are for reads that do not wait"):
        parse_read_query(b"offset=-1&live=sse&" + bound)


@pytest.mark.parametrize("value", [b"", b"-1", b"now", b"3", b"x"])
def test_a_read_ends_at_an_issued_offset(value: bytes) -> None:
    with pytest.raises(InvalidOffset):
        parse_read_query(b"until=" + value)


@pytest.mark.parametrize("value", [b"", b"-1", b"1.5", b"yesterday", b"2026-13-01T00:00:00Z", b"1" * 16])
def test_another_time_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidQuery, match="at must be an RFC 3339 timestamp or milliseconds since 1970, got"):
        parse_read_query(b"at=" + value)


@pytest.mark.parametrize("key", [b"last", b"skip"])
@pytest.mark.parametrize("value", [b"", b"-1", b"1.5", b"x", b"1" * 16, b"%C2%B2"])
def test_another_count_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(InvalidQuery, match=f"{key.decode()} must be a number of at most 15 digits, got"):
        parse_read_query(b"%b=%b" % (key, value))


@pytest.mark.parametrize("value", [b"", b"json", b"Frames"])
def test_another_format_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidQuery, match="format must be frames, got"):
        parse_read_query(b"format=" + value)


@pytest.mark.parametrize(
    "query, lookup",
    [
        (b"", None),
        (b"live=sse&until=x&format=frames&flat=1", None),
        (b"offset=0000000000000003", ReadQuery(3)),
        (b"offset=now&skip=0", ReadQuery(Sentinel.NOW, skip=0)),
        (b"at=5&live=nonsense", ReadQuery(Sentinel.BEGINNING, at=5)),
        (b"last=2&skip=1", ReadQuery(Sentinel.BEGINNING, last=2, skip=1)),
        (b"offset=0000000000000003&max_bytes=9", ReadQuery(3, max_bytes=9)),
    ],
)
def test_a_lookup_asks_where_something_is_and_nothing_else(query: bytes, lookup: ReadQuery | None) -> None:
    """Ours: HEAD; how a read would wait or end is nothing to it."""
    assert parse_lookup(query) == lookup


@pytest.mark.parametrize("query", [b"at=1&last=1", b"last=x", b"at=1&at=1", b"skip=-1", b"max_bytes=0"])
def test_a_malformed_lookup_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidQuery):
        parse_lookup(query)


def test_a_name_in_a_query_is_utf8() -> None:
    assert require_utf8(b"stream", "é".encode()) == "é".encode()
    with pytest.raises(InvalidQuery, match="stream must be UTF-8"):
        require_utf8(b"stream", b"\xff")
