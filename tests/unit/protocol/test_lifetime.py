"""Lifetimes: sliding and absolute expiry, and when a stream can still be spoken to."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol import Create, Existing, ForkFrom, Identity
from everbrook.protocol.errors import (
    BucketNotFound,
    InvalidHeader,
    NotFound,
    StreamExists,
    StreamGone,
    StreamNotFound,
)
from everbrook.protocol.lifetime import (
    MAX_TIME_MS,
    deadline,
    ended,
    format_expires_at,
    last_touch,
    living_stream,
    missing,
    parse_expires_at,
    parse_time,
    parse_ttl,
    told_ttl_secs,
)
from tests.kit.generated import generated
from tests.kit.views import NOW, TEXT, KeptStream, Streams

FIRST_TIME_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z


def identity(ttl_secs: int | None = None, expires_at: int | None = None) -> Identity:
    return Identity(b"s", 1, TEXT, TEXT, NOW, ttl_secs, expires_at)


def kept(stream: KeptStream) -> Streams:
    streams = Streams()
    streams.kept[b"s"] = stream
    return streams


def stream(*, expires_at: int | None = None, deleted: bool = False, fork_count: int = 0) -> KeptStream:
    made = Streams().hold(b"s")
    made.head = replace(made.head, identity=identity(expires_at=expires_at), deleted=deleted)
    made.fork_count = fork_count
    return made


@generated
@given(st.integers(0, 10**10))
def test_a_ttl_is_decimal_digits(secs: int) -> None:
    """§5.1."""
    assert parse_ttl(b"%d" % secs, 0) == secs


@pytest.mark.parametrize(
    "text",
    [b"", b"abc", b"-1", b"+60", b"00060", b"00", b"60.5", b"3.6e3", b"1e3", b" 60", b"60 ", b"60\n", b"6_0", b"\xb2"],
)
def test_another_spelling_of_a_ttl_is_refused(text: bytes) -> None:
    """§5.1: no leading zeros, plus signs, decimal points or scientific notation."""
    with pytest.raises(InvalidHeader, match="Stream-TTL must be decimal digits without leading zeros"):
        parse_ttl(text, NOW)


@pytest.mark.parametrize("text", [b"%d" % ((MAX_TIME_MS - NOW) // 1000 + 1), b"9" * 15, b"9" * 40, b"9" * 5000])
def test_a_ttl_beyond_what_a_date_can_hold_is_refused(text: bytes) -> None:
    """Better than the reference; gap G-13."""
    with pytest.raises(InvalidHeader, match="must end before the year 10000"):
        parse_ttl(text, NOW)


def test_the_longest_ttl_ends_with_the_calendar() -> None:
    """Gap G-13."""
    assert format_expires_at(MAX_TIME_MS) == b"9999-12-31T23:59:59.999Z"
    longest = MAX_TIME_MS // 1000

    assert parse_ttl(b"%d" % longest, MAX_TIME_MS % 1000) == longest


@pytest.mark.parametrize(
    "text, moment",
    [
        (b"1970-01-01T00:00:00Z", 0),
        (b"1970-01-01t00:00:01z", 1000),
        (b"1970-01-01T00:00:00.1Z", 100),
        (b"1970-01-01T00:00:00.123Z", 123),
        (b"1970-01-01T00:00:00.123+00:00", 123),
        (b"1970-01-01T00:00:00-00:00", 0),
        (b"1970-01-01T01:00:00+01:00", 0),
        (b"1969-12-31T18:30:00-05:30", 0),
        (b"1969-12-31T23:59:59.750Z", -250),
        (b"1972-02-29T23:59:59Z", 68_255_999_000),
    ],
)
def test_an_expiry_is_an_rfc_3339_timestamp(text: bytes, moment: int) -> None:
    """§5.1."""
    assert parse_expires_at(text) == moment


def test_an_expiry_is_never_rounded_up() -> None:
    """A stream does not outlive the moment that was asked for."""
    assert parse_expires_at(b"1970-01-01T00:00:00.9999999999Z") == 999


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not-a-timestamp",
        b"1970-01-01",
        b"1970-01-01T00:00:00",
        b"1970-01-01 00:00:00Z",
        b"1970-01-01T00:00Z",
        b"1970-01-01T00:00:00.Z",
        b"1970-01-01T00:00:00,5Z",
        b"1970-01-01T00:00:00+0000",
        b"1970-01-01T00:00:00+00:60",
        b"1970-01-01T24:00:00Z",
        b"1970-01-01T00:60:00Z",
        b"1970-01-01T00:00:00Z\n",
        b" 1970-01-01T00:00:00Z",
        b"70-01-01T00:00:00Z",
        b"1800000000",
        "\N{FULLWIDTH DIGIT ONE}970-01-01T00:00:00Z".encode(),
    ],
)
def test_another_notation_of_time_is_refused(text: bytes) -> None:
    """§5.1."""
    with pytest.raises(InvalidHeader, match="Stream-Expires-At must be an RFC 3339 timestamp"):
        parse_expires_at(text)


@pytest.mark.parametrize(
    "text",
    [
        b"1970-02-29T00:00:00Z",
        b"1970-13-01T00:00:00Z",
        b"1970-00-01T00:00:00Z",
        b"0000-01-01T00:00:00Z",
        b"0001-01-01T00:00:00+01:00",
        b"9999-12-31T23:59:59-01:00",
    ],
)
def test_a_moment_outside_the_calendar_is_refused(text: bytes) -> None:
    """Better than the reference: 400, never a crash when it is shown."""
    with pytest.raises(InvalidHeader, match="Stream-Expires-At must be a real date and time"):
        parse_expires_at(text)


@generated
@given(st.integers(FIRST_TIME_MS, MAX_TIME_MS))
def test_an_expiry_reads_back_as_it_is_shown(moment: int) -> None:
    """§5.5."""
    assert parse_expires_at(format_expires_at(moment)) == moment


@generated
@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-1439, 1439))  # noqa: DTZ001 - zones come next
def test_an_expiry_means_the_same_moment_in_any_zone(local: datetime, minutes: int) -> None:
    """§5.1."""
    moment = local.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))

    assert parse_expires_at(moment.isoformat().encode()) == int(moment.timestamp()) * 1000


def test_an_expiry_is_shown_in_utc_with_milliseconds() -> None:
    """§5.5."""
    assert format_expires_at(NOW + 7) == b"2027-01-15T08:00:00.007Z"


def test_a_ttl_counts_from_the_last_touch() -> None:
    """§5.1: it slides."""
    assert deadline(identity(ttl_secs=60), NOW + 5) == NOW + 60_005


def test_an_absolute_expiry_never_moves() -> None:
    """§5.1."""
    assert deadline(identity(expires_at=NOW + 9), NOW) == deadline(identity(expires_at=NOW + 9), NOW + 8) == NOW + 9


def test_a_stream_without_a_lifetime_has_no_deadline() -> None:
    assert deadline(identity(), NOW) is None


def test_a_stream_ends_at_its_deadline_and_not_before() -> None:
    """§5.1."""
    made = stream(expires_at=NOW)

    assert [ended(made.head, made, NOW + late) for late in (-1, 0, 1)] == [False, True, True]


def test_a_touch_postpones_the_end_of_a_sliding_stream() -> None:
    """§5.1: each read or write resets the countdown."""
    made = Streams().hold(b"s", ttl_secs=1)
    made.touched_at = NOW + 999

    assert not ended(made.head, made, NOW + 1998)
    assert ended(made.head, made, NOW + 1999)


def test_a_sliding_stream_does_not_end_while_somebody_follows_it() -> None:
    """§5.1: a stream with active live readers does not expire."""
    made = Streams().hold(b"s", ttl_secs=1)
    made.followed = True

    assert not ended(made.head, made, NOW + 10**9)


def test_an_absolute_expiry_comes_whoever_follows() -> None:
    """§5.1: it never moves."""
    made = stream(expires_at=NOW)
    made.followed = True

    assert not ended(made.head, made, NOW - 1)
    assert ended(made.head, made, NOW)


def test_a_soft_deleted_stream_has_ended_whoever_follows_and_however_long_it_had() -> None:
    """§4.2."""
    made = Streams().hold(b"s", ttl_secs=1)
    made.head, made.followed = replace(made.head, deleted=True), True

    assert ended(made.head, made, NOW)
    assert ended(made.head, made, NOW + 1000)


def test_a_ttl_of_zero_is_over_at_once() -> None:
    """§5.1: non-negative, so zero is one."""
    made = Streams().hold(b"s", ttl_secs=0)

    assert ended(made.head, made, NOW)


def test_a_soft_deleted_stream_has_ended() -> None:
    """§4.2."""
    made = stream(deleted=True)

    assert ended(made.head, made, NOW)


def test_a_stream_that_lives_is_given() -> None:
    made = stream(expires_at=NOW + 1)

    assert living_stream(kept(made), b"s", NOW) is made


def test_a_stream_that_never_was_is_not_found() -> None:
    """§5.2: 404."""
    with pytest.raises(StreamNotFound, match="no stream at 'x'"):
        living_stream(Streams(), b"x", NOW)


def test_an_expired_stream_is_not_found() -> None:
    """§5.1: 404."""
    with pytest.raises(StreamNotFound, match="no stream at 's'"):
        living_stream(kept(stream(expires_at=NOW)), b"s", NOW)


def test_a_soft_deleted_stream_is_gone() -> None:
    """§4.2: 410."""
    with pytest.raises(StreamGone, match="'s' was deleted"):
        living_stream(kept(stream(deleted=True, fork_count=1)), b"s", NOW)


def test_an_expired_stream_that_forks_read_is_gone() -> None:
    """Gap G-07: expiry soft-deletes as DELETE does."""
    with pytest.raises(StreamGone):
        living_stream(kept(stream(expires_at=NOW, fork_count=1)), b"s", NOW)


def test_a_time_that_is_none_is_refused_by_the_name_of_its_field() -> None:
    """Errors are for whoever caused them."""
    assert parse_time(b"at", b"1970-01-01T00:00:01Z") == 1000
    with pytest.raises(InvalidHeader, match=r"^at must be an RFC 3339 timestamp, got 'noon'"):
        parse_time(b"at", b"noon")
    with pytest.raises(InvalidHeader, match=r"^at must be a real date and time"):
        parse_time(b"at", b"2026-02-30T00:00:00Z")


@pytest.mark.parametrize("name, refusal", [(b"/ds/agents/s", BucketNotFound), (b"/ds/others/s", StreamNotFound)])
def test_where_there_is_no_bucket_either_that_is_said(name: bytes, refusal: type[NotFound]) -> None:
    """002 §1.6."""
    streams = Streams()
    streams.bucket(b"others")

    assert type(missing(streams, name)) is refusal
    assert type(missing(streams, b"/v1/stream/s")) is StreamNotFound


# Loading


def test_a_loaded_stream_counts_as_touched_when_the_server_started_or_later() -> None:
    assert last_touch(written_at=NOW - 5, started_at=NOW, now=NOW + 9) == NOW
    assert last_touch(written_at=NOW + 5, started_at=NOW, now=NOW + 9) == NOW + 5
    assert last_touch(written_at=NOW + 9, started_at=NOW, now=NOW + 9) == NOW + 9


def test_a_write_of_a_time_that_is_still_to_come_says_nothing() -> None:
    assert last_touch(written_at=NOW + 10, started_at=NOW, now=NOW + 9) == NOW


def fixed(
    name: bytes = b"s",
    *,
    now: int = NOW,
    incarnation: int = 7,
    ttl_secs: int | None = None,
    expires_at: int | None = None,
) -> Create:
    return Create(name, now, incarnation, TEXT, ttl_secs=ttl_secs, expires_at=expires_at, fixed_ttl=True)


def test_a_fixed_ttl_counts_from_the_creation_whoever_uses_the_stream() -> None:
    """The rule of earlier texts, by a setting."""
    streams = Streams()
    streams.run(fixed(ttl_secs=60))
    made = streams.kept[b"s"]
    made.touched_at, made.followed = NOW + 59_000, True

    assert deadline(made.head.identity, made.touched_at) == NOW + 60_000
    assert [ended(made.head, made, NOW + 60_000 + late) for late in (-1, 0)] == [False, True]


@pytest.mark.parametrize("passed_ms, told", [(0, 60), (1, 60), (1000, 59), (59_001, 1), (60_000, 0), (99_000, 0)])
def test_what_remains_of_a_fixed_ttl_is_told(passed_ms: int, told: int) -> None:
    """HEAD of earlier texts. A sliding one has its whole window, and who has none is told of none."""
    streams = Streams()
    streams.run(fixed(ttl_secs=60))

    assert told_ttl_secs(streams.kept[b"s"].head.identity, NOW + passed_ms) == told
    assert told_ttl_secs(identity(ttl_secs=60), NOW + passed_ms) == 60
    assert told_ttl_secs(identity(expires_at=NOW), NOW + passed_ms) is None


@pytest.mark.parametrize("later", [fixed(now=NOW + 5, ttl_secs=60), Create(b"s", NOW + 5, 8, TEXT, ttl_secs=60)])
def test_a_stream_with_a_fixed_ttl_is_found_by_naming_it_by_whichever_rule(later: Create) -> None:
    """§5.1: a stream keeps the rule by which it was created."""
    streams = Streams()
    streams.run(fixed(ttl_secs=60))

    assert isinstance(streams.run(later), Existing)
    for other in (fixed(ttl_secs=61), fixed(), fixed(expires_at=NOW + 60_000)):
        with pytest.raises(StreamExists, match="another TTL"):
            streams.run(other)


def test_an_absolute_expiry_and_no_lifetime_are_as_ever_where_ttls_are_fixed() -> None:
    streams = Streams()
    streams.run(fixed(b"a", expires_at=NOW + 9))
    streams.run(fixed(b"b", incarnation=8))

    assert [streams.kept[name].head.identity.expires_at for name in (b"a", b"b")] == [NOW + 9, None]


@pytest.mark.parametrize("by_rule, expires_at", [(True, NOW + 65_000), (False, None)])
def test_a_fork_takes_over_a_fixed_ttl_on_its_own_clock(*, by_rule: bool, expires_at: int | None) -> None:
    """§4.2: and by the rule of its own creation."""
    streams = Streams()
    streams.run(fixed(ttl_secs=60))
    streams.run(Create(b"f", NOW + 5000, 9, fork=ForkFrom(b"s"), fixed_ttl=by_rule))

    forked = streams.kept[b"f"].head.identity
    assert (forked.ttl_secs, forked.expires_at) == (60, expires_at)
