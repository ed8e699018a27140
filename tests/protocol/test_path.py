"""Paths: how a URL names a stream."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everbrook.protocol.errors import InvalidPath, NotFound
from everbrook.protocol.path import MAX_PATH_BYTES, STREAM_ROOT, parse_source_path, parse_stream_path
from tests.protocol.generated import generated

segments = (
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=12)
    .map(str.encode)
    .filter(lambda segment: segment not in {b".", b"..", b"__ds"})
)


@generated
@given(st.lists(segments, min_size=1, max_size=4).map(b"/".join))
def test_the_percent_decoded_path_names_the_stream(tail: bytes) -> None:
    """Gap G-17."""
    assert parse_stream_path(STREAM_ROOT + quote(tail).encode()) == STREAM_ROOT + tail


def test_two_spellings_of_one_path_name_one_stream() -> None:
    """Gap G-17."""
    assert parse_stream_path(b"/v1/stream/a%2fb%41") == parse_stream_path(b"/v1/stream/a/bA")


@pytest.mark.parametrize("tail", [b"...", b".a", b"a..b", b"..a", b"__dsx", b"x__ds", b"a b", b"caf\xc3\xa9", b"%25"])
def test_names_that_only_look_odd_are_taken(tail: bytes) -> None:
    assert parse_stream_path(STREAM_ROOT + tail).startswith(STREAM_ROOT)


@pytest.mark.parametrize(
    "tail, reason",
    [
        (b"", "empty segment"),
        (b"a//b", "empty segment"),
        (b"a/", "empty segment"),
        (b"/a", "empty segment"),
        (b"a%2F%2Fb", "empty segment"),
        (b"..", "'..' segment"),
        (b"a/../b", "'..' segment"),
        (b"a/%2e%2E/b", "'..' segment"),
        (b"a%2f..%2fb", "'..' segment"),
        (b".", "'.' segment"),
        (b"a/%2e", "'.' segment"),
        (b"a\\b", "backslash"),
        (b"a%5Cb", "backslash"),
        (b"a%00b", "control character"),
        (b"a%0ab", "control character"),
        (b"a%1fb", "control character"),
        (b"a%7f", "control character"),
        (b"a\x00b", "control character"),
        (b"a%", "two hexadecimal digits"),
        (b"a%4", "two hexadecimal digits"),
        (b"a%4x", "two hexadecimal digits"),
        (b"a%%41", "two hexadecimal digits"),
        (b"a%ff", "UTF-8"),
        (b"a\xff", "UTF-8"),
        (b"%c0%ae%c0%ae", "UTF-8"),
    ],
)
def test_a_path_that_could_be_read_as_another_one_is_refused(tail: bytes, reason: str) -> None:
    """§12.2: path traversal is prevented."""
    with pytest.raises(InvalidPath, match=reason):
        parse_stream_path(STREAM_ROOT + tail)


def test_a_path_is_bounded_after_decoding() -> None:
    """§12.2: URL components are within limits, whichever way they are spelt."""
    longest = STREAM_ROOT + b"%61" * MAX_PATH_BYTES

    assert len(parse_stream_path(longest)) == len(STREAM_ROOT) + MAX_PATH_BYTES
    with pytest.raises(InvalidPath, match="at most 400 bytes, got 401"):
        parse_stream_path(longest + b"a")


@pytest.mark.parametrize("tail", [b"__ds", b"__ds/jwks.json", b"a/__ds/snapshot", b"a/%5f%5fds"])
def test_control_paths_are_not_streams(tail: bytes) -> None:
    """§6: reserved."""
    with pytest.raises(NotFound, match="reserved"):
        parse_stream_path(STREAM_ROOT + tail)


def test_a_source_is_named_by_its_url_path() -> None:
    """§4.2."""
    assert parse_source_path(b"/v1/stream/a%20b") == b"/v1/stream/a b"


@pytest.mark.parametrize(
    "value", [b"", b"a", b"v1/stream/a", b"/v1/streams/a", b"/v2/stream/a", b"http://host/v1/stream/a", b"/v1/stream"]
)
def test_a_source_elsewhere_is_refused(value: bytes) -> None:
    """§4.2: the source is on the same server."""
    with pytest.raises(InvalidPath, match="Stream-Forked-From must be the URL path of a stream"):
        parse_source_path(value)


def test_a_source_obeys_the_rules_of_paths() -> None:
    with pytest.raises(InvalidPath):
        parse_source_path(b"/v1/stream/../a")
