"""Content types: what a stream's bytes are."""

import pytest

from everbrook.protocol.content_type import MAX_CONTENT_TYPE_BYTES, carried_as_text, parse_media_type
from everbrook.protocol.errors import InvalidHeader


@pytest.mark.parametrize(
    "header, media_type",
    [
        (b"text/plain", b"text/plain"),
        (b"TEXT/Plain", b"text/plain"),
        (b"application/json; charset=utf-8", b"application/json"),
        (b"application/json;charset=utf-8;x=y", b"application/json"),
        (b" \tapplication/json \t;", b"application/json"),
        (b"application/vnd.api+json", b"application/vnd.api+json"),
        (b"x-a.b_c/!#$%&'*+^`|~9", b"x-a.b_c/!#$%&'*+^`|~9"),
    ],
)
def test_a_media_type_is_the_type_and_subtype_in_lower_case(header: bytes, media_type: bytes) -> None:
    """§5.2, gap G-19: parameters and case do not make another type."""
    assert parse_media_type(header) == media_type


@pytest.mark.parametrize(
    "header", [b"", b";", b"text", b"text/", b"/plain", b"text/a/b", b"text /plain", b"te\xe9xt/plain", b"text/plain\n"]
)
def test_what_is_not_type_and_subtype_is_refused(header: bytes) -> None:
    """§5.1: 400 for invalid headers."""
    with pytest.raises(InvalidHeader, match="Content-Type must be type/subtype"):
        parse_media_type(header)


def test_a_content_type_is_bounded() -> None:
    """Limits are the server's: it is kept as long as its stream."""
    longest = b"text/plain;" + b"x" * (MAX_CONTENT_TYPE_BYTES - 11)

    assert parse_media_type(longest) == b"text/plain"
    with pytest.raises(InvalidHeader, match="Content-Type holds at most 256 bytes, got 257"):
        parse_media_type(longest + b"x")


@pytest.mark.parametrize("media_type", [b"application/json", b"text/plain", b"text/html", b"text/x-anything"])
def test_text_and_json_travel_in_events_as_they_are(media_type: bytes) -> None:
    """§5.8."""
    assert carried_as_text(media_type)


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/octet-stream",
        b"application/ndjson",
        b"application/vnd.api+json",
        b"image/png",
        b"application/text",
    ],
)
def test_everything_else_travels_in_base64(media_type: bytes) -> None:
    """§5.8: only `text/*` and `application/json` are text."""
    assert not carried_as_text(media_type)
