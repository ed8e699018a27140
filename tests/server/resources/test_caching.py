"""Caching: entity tags, 304, and how long an answer may be kept (§10)."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire

FRESH = "public, max-age=60, stale-while-revalidate=300"


def test_an_unchanged_page_is_a_304_without_a_body(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    page = wire.get(path)
    again = wire.get(path, if_none_match=page.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == page.headers["etag"]
    assert again.headers["cache-control"] == page.headers["cache-control"]
    assert wire.get("/healthz").body == b"ok"


@pytest.mark.parametrize("form", ["W/{}", '"other", {}', '{} , "other"', '"a",W/{},"b"', "*"])
def test_entity_tags_are_compared_weakly_and_in_lists(wire: Wire, path: str, form: str) -> None:
    """RFC 9110 §13.1.2."""
    wire.create(path, body=b"hello")
    etag = wire.get(path).headers["etag"]
    assert wire.get(path, if_none_match=form.format(etag)).status == 304


@pytest.mark.parametrize("form", ['"other"', "{}x", "", '"*"', "W/", "{}".replace('"', "")])
def test_another_entity_tag_is_no_match(wire: Wire, path: str, form: str) -> None:
    wire.create(path, body=b"hello")
    etag = wire.get(path).headers["etag"].strip('"')
    assert wire.get(path, if_none_match=form.format(etag)).status == 200


def test_an_append_changes_the_tag(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    etag = wire.get(path).headers["etag"]
    wire.append(path, b"more")
    again = wire.get(path, if_none_match=etag)
    assert (again.status, again.body) == (200, b"hellomore")
    assert again.headers["etag"] != etag


def test_closing_changes_the_tag(wire: Wire, path: str) -> None:
    """§10.1: a 304 must not hide that the stream has ended."""
    wire.create(path, body=b"hello")
    etag = wire.get(path).headers["etag"]
    wire.request("POST", path, stream_closed="true")
    again = wire.get(path, if_none_match=etag)
    assert (again.status, again.headers["stream-closed"]) == (200, "true")
    assert again.headers["etag"].endswith(':c"')


def test_a_full_page_is_named_otherwise_when_more_has_come_after_it(start: Start, connect: Connect, path: str) -> None:
    """A 304 must not hide that the reader is not up to date any more."""
    wire = connect(start(limits__max_page_bytes=5))
    wire.create(path, body=b"hello")
    at_tail = wire.get(path)
    wire.append(path, b"world")
    again = wire.get(path, if_none_match=at_tail.headers["etag"])
    assert (again.status, again.body) == (200, b"hello")
    assert "stream-up-to-date" not in again.headers


def test_a_re_created_stream_has_other_tags(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    etag = wire.get(path).headers["etag"]
    wire.request("DELETE", path)
    wire.create(path, body=b"HELLO")
    assert wire.get(path, if_none_match=etag).body == b"HELLO"


def test_reading_from_now_on_has_no_tag_and_is_not_stored(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    answer = wire.get(f"{path}?offset=now", if_none_match="*")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert "etag" not in answer.headers


def test_a_page_may_be_kept_for_a_minute(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    assert wire.get(path).headers["cache-control"] == FRESH


def test_the_end_of_a_closed_stream_may_be_kept(wire: Wire, path: str) -> None:
    tail = wire.create(path, body=b"hello", stream_closed="true").next_offset
    assert wire.get(f"{path}?offset={tail}").headers["cache-control"] == FRESH


def test_nothing_at_an_open_tail_must_be_asked_for_again(wire: Wire, path: str) -> None:
    tail = wire.create(path, body=b"hello").next_offset
    assert wire.get(f"{path}?offset={tail}").headers["cache-control"] in {"no-cache", "no-store"}


@pytest.mark.parametrize("ttl, freshness", [("10", "max-age=10, stale-while-revalidate=0"), ("1000", "max-age=60, ")])
def test_a_page_is_kept_no_longer_than_its_stream_may_live(wire: Wire, path: str, ttl: str, freshness: str) -> None:
    wire.create(path, body=b"hello", stream_ttl=ttl)
    assert freshness in wire.get(path).headers["cache-control"]


def test_staleness_ends_with_the_stream_too(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello", stream_ttl="100")
    assert wire.get(path).headers["cache-control"] == "public, max-age=60, stale-while-revalidate=40"


def test_a_page_is_kept_no_longer_than_the_absolute_expiry(wire: Wire, path: str) -> None:
    expires_at = (datetime.now(UTC) + timedelta(seconds=30)).isoformat().replace("+00:00", "Z")
    wire.create(path, body=b"hello", stream_expires_at=expires_at)
    freshness = wire.get(path).headers["cache-control"]
    assert freshness in {f"public, max-age={secs}, stale-while-revalidate=0" for secs in (28, 29, 30)}


def test_what_was_asked_for_with_credentials_is_private(wire: Wire, path: str) -> None:
    """RFC 9111 §3.5: `public` would let a shared cache give it to others."""
    wire.create(path, body=b"hello")
    answer = wire.get(path, authorization="Bearer secret")
    assert answer.headers["cache-control"] == FRESH.replace("public", "private")


def test_head_is_not_stored(wire: Wire, path: str) -> None:
    wire.create(path)
    assert wire.request("HEAD", path).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("target", ["", "?offset=bad", "?live=sse"])
def test_errors_are_not_stored(wire: Wire, path: str, target: str) -> None:
    assert wire.get(path + target).headers["cache-control"] == "no-store"
    wire.create(path)
    if target:
        assert wire.get(path + target).headers["cache-control"] == "no-store"


def test_an_event_stream_is_not_cached(wire: Wire, path: str) -> None:
    wire.create(path)
    assert wire.follow(f"{path}?offset=-1&live=sse").head.headers["cache-control"] == "no-cache"


def test_a_long_poll_with_data_may_be_cached_and_one_without_not(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(server__long_poll_timeout_secs=0.01))
    tail = wire.create(path, body=b"hello").next_offset
    assert wire.get(f"{path}?offset=-1&live=long-poll").headers["cache-control"] == FRESH
    assert wire.get(f"{path}?offset={tail}&live=long-poll").headers["cache-control"] == "no-store"


def test_no_answer_to_a_change_is_kept(start_either: StartEither, path: str) -> None:
    """§10: what it says is so at this moment."""
    below, bucket, json = f"{path}/__ds", "/ds/cached", "application/json"
    claim = {"content_type": json, "producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    subscription = "/ds/cached/__ds/subscriptions/s"
    changes = [
        ("PUT", path, b"1", {"content_type": json}, 201),
        ("PUT", path, b"1", {"content_type": json}, 200),
        ("PUT", path, b"1", {"content_type": "text/plain"}, 409),
        ("POST", path, b"1", {"content_type": json}, 204),
        ("POST", path, b"1", claim, 200),
        ("POST", path, b"1", claim, 204),
        ("PUT", f"{below}/snapshot/{2:016d}", b"1", {"stream_snapshot_history": "keep"}, 204),
        ("PUT", f"{below}/retention/{2:016d}", None, {}, 204),
        ("PUT", f"{below}/snapshot/{4:016d}", b"1", {"stream_snapshot_history": "keep"}, 204),
        ("POST", path, None, {"stream_closed": "true"}, 204),
        ("DELETE", path, None, {}, 204),
        ("PUT", bucket, None, {}, 201),
        ("PUT", f"{bucket}/__ds/quota", b'{"max_streams":9}', {}, 200),
        ("DELETE", f"{bucket}/__ds/quota", None, {}, 204),
        ("PUT", subscription, b'{"type":"pull-wake","pattern":"**","wake_stream":"w"}', {}, 201),
        ("POST", f"{subscription}/streams", b'{"streams":["a"]}', {}, 204),
        ("DELETE", f"{subscription}/streams/a", None, {}, 204),
        ("DELETE", subscription, None, {}, 204),
        ("DELETE", bucket, None, {}, 204),
    ]
    with start_either().connect() as wire:
        for method, target, body, headers, status in changes:
            answer = wire.request(method, target, body, **headers)
            assert (answer.status, answer.headers["cache-control"]) == (status, "no-store"), (method, target)
