"""Paths: how a URL names a stream."""

from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import STREAM_ROOT, bucket_of, bucket_prefix, bucket_record
from everbrook.protocol.errors import InvalidPath, NotFound
from everbrook.protocol.path import MAX_PATH_BYTES, parse_bucket_id, parse_source_path, parse_stream_path
from tests.kit.generated import generated

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


# In a bucket

ids = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20)
    .map(str.encode)
    .filter(lambda stream_id: b".." not in stream_id and stream_id != b"__ds")
)


@generated
@given(ids)
def test_a_stream_in_a_bucket_is_named_by_its_decoded_path(stream_id: bytes) -> None:
    """002 §1.1: any UTF-8."""
    name = parse_stream_path(b"/ds/agents/" + quote(stream_id, safe="").encode())

    assert name == b"/ds/agents/" + stream_id
    assert bucket_of(name) == b"agents"
    assert name.startswith(bucket_prefix(b"agents"))


@pytest.mark.parametrize("stream_id", [b"a\\b", b"a%5Cb", b"a%0a", b".", b".a.", b"a%20b", b"__dsx"])
def test_names_that_only_look_odd_are_taken_in_a_bucket(stream_id: bytes) -> None:
    """002 §1.1: what is not forbidden is allowed."""
    assert parse_stream_path(b"/ds/agents/" + stream_id).startswith(b"/ds/agents/")


@pytest.mark.parametrize(
    "path, reason",
    [
        (b"agents/", "must not be empty"),
        (b"agents", "must not be empty"),
        (b"agents/a/b", "must not contain '/'"),
        (b"agents/a%2Fb", "must not contain '/'"),
        (b"agents/a%2fb", "must not contain '/'"),
        (b"agents/__ds/x", "must not contain '/'"),
        (b"agents/a%00", "must not contain"),
        (b"agents/..", r"must not contain '\.\.'"),
        (b"agents/a..b", r"must not contain '\.\.'"),
        (b"agents/a%2e%2eb", r"must not contain '\.\.'"),
        (b"agents/%ff", "UTF-8"),
        (b"agents/%zz", "two hexadecimal digits"),
        (b"abc/a", "a bucket id must be"),
        (b"Agents/a", "a bucket id must be"),
        (b"/a", "a bucket id must be"),
    ],
)
def test_a_name_outside_the_rules_of_buckets_is_refused(path: bytes, reason: str) -> None:
    """002 §1.1: 400."""
    with pytest.raises(InvalidPath, match=reason):
        parse_stream_path(b"/ds/" + path)


def test_bucket_and_stream_together_are_bounded_after_decoding() -> None:
    """002 §1.1: 122 bytes with the slash between them."""
    longest = b"/ds/agents/" + b"%61" * 115

    assert len(parse_stream_path(longest)) == len(b"/ds/") + 122
    with pytest.raises(InvalidPath, match="at most 122 bytes, got 123"):
        parse_stream_path(longest + b"a")


@pytest.mark.parametrize("segment", [b"__ds", b"%5f%5fds"])
def test_control_paths_of_a_bucket_are_not_streams(segment: bytes) -> None:
    """§6: reserved."""
    with pytest.raises(NotFound, match="reserved"):
        parse_stream_path(b"/ds/agents/" + segment)


@pytest.mark.parametrize("bucket_id", [b"abcd", b"a-_9", b"0000", b"x" * 64, b"%61gents"])
def test_a_bucket_is_named_in_lower_case(bucket_id: bytes) -> None:
    """002 §1.1."""
    assert parse_bucket_id(bucket_id) == bucket_id.replace(b"%61", b"a")


@pytest.mark.parametrize(
    "bucket_id",
    [b"", b"abc", b"x" * 65, b"Agents", b"agents\n", b"agents%0a", b"a.bcd", b"a%2Fbcd", b"caf\xc3\xa9", b"%zz"],
)
def test_another_name_of_a_bucket_is_refused(bucket_id: bytes) -> None:
    """002 §1.1: `^[a-z0-9_-]{4,64}$`."""
    with pytest.raises(InvalidPath):
        parse_bucket_id(bucket_id)


def test_streams_of_the_base_surface_are_in_no_bucket() -> None:
    """002 §1: `/ds/` has them."""
    assert bucket_of(b"/v1/stream/ds/agents/a") is None
    assert bucket_of(bucket_record(b"agents")) is None


def test_no_url_leads_to_the_record_of_a_bucket() -> None:
    with pytest.raises(InvalidPath):
        parse_source_path(bucket_record(b"agents"))


def test_a_source_can_be_in_a_bucket() -> None:
    """§4.2, 002 §1.6."""
    assert parse_source_path(b"/ds/agents/a%20b") == b"/ds/agents/a b"
