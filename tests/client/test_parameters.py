"""What users give for times and lifetimes, as requests carry it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from everbrook.client.parameters import creation_headers, format_lifetime, format_moment, path_of, start_query

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_time_is_written_with_its_zone() -> None:
    assert format_moment(NOON) == "2026-01-01T12:00:00+00:00"
    assert format_moment(NOON.astimezone(timezone(timedelta(hours=2)))) == "2026-01-01T14:00:00+02:00"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a time must have a time zone, as datetime.now\(UTC\) has"):
        format_moment(NOON.replace(tzinfo=None))


def test_a_time_may_be_written_already() -> None:
    assert format_moment("2026-01-01T12:00:00Z") == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    "lifetime, secs", [(60, "60"), (timedelta(hours=1), "3600"), (timedelta(milliseconds=1), "1"), (timedelta(0), "0")]
)
def test_a_lifetime_is_whole_seconds_and_never_too_short(lifetime: timedelta | int, secs: str) -> None:
    assert format_lifetime(lifetime) == secs


def test_only_what_is_given_is_said() -> None:
    assert start_query(None, None, None) == {}
    assert start_query(5, 1735689600000, 0) == {"last": "5", "at": "1735689600000", "skip": "0"}
    assert start_query(None, NOON, None) == {"at": "2026-01-01T12:00:00+00:00"}


def test_a_stream_is_described_by_headers() -> None:
    assert creation_headers("text/plain", 60, NOON, "max-age=5", closed=True) == {
        "Content-Type": "text/plain",
        "Stream-TTL": "60",
        "Stream-Expires-At": "2026-01-01T12:00:00+00:00",
        "Stream-Retention": "max-age=5",
        "Stream-Closed": "true",
    }
    assert creation_headers(None, None, None, None, closed=False) == {}


def test_a_fork_names_its_source_by_its_path() -> None:
    assert path_of("http://host/v1/stream/a%20b") == "/v1/stream/a%20b"
