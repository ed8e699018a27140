"""What a stream says of itself in the headers of an answer."""

from datetime import UTC, datetime

import pytest

from everbrook.client.errors import InvalidAnswer
from everbrook.client.models import Head, head_of


def test_a_head_holds_all_that_the_headers_say() -> None:
    headers = {
        "Content-Type": "text/plain",
        "Stream-Next-Offset": "0042",
        "Stream-Closed": "true",
        "Stream-TTL": "60",
        "Stream-Expires-At": "2026-01-01T12:00:00Z",
        "ETag": '"a"',
        "Stream-Earliest-Offset": "0007",
        "Stream-Snapshot-Offset": "0009",
        "Stream-Retention": "max-age=5",
        "Stream-Incarnation": "6a1c",
        "Stream-Extensions": "buckets, frames",
    }
    assert head_of(headers, created=True) == Head(
        content_type="text/plain",
        offset="0042",
        closed=True,
        created=True,
        ttl_secs=60,
        expires_at=datetime(2026, 1, 1, 12, tzinfo=UTC),
        etag='"a"',
        earliest_offset="0007",
        snapshot_offset="0009",
        retention="max-age=5",
        incarnation="6a1c",
        extensions=frozenset({"buckets", "frames"}),
    )


def test_a_head_may_say_little() -> None:
    assert head_of({"Stream-Next-Offset": "1"}) == Head("", "1")


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/html"}])
def test_an_answer_without_an_offset_describes_no_stream(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidAnswer, match="no Stream-Next-Offset: is this the URL of a stream"):
        head_of(headers)


@pytest.mark.parametrize("header", ["Stream-TTL", "Stream-Expires-At"])
def test_a_lifetime_that_makes_no_sense_is_an_invalid_answer(header: str) -> None:
    with pytest.raises(InvalidAnswer, match=f"{header}.*'soon'"):
        head_of({"Stream-Next-Offset": "1", header: "soon"})
