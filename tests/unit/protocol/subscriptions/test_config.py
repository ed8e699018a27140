"""What a request may say of a subscription, and when two requests say the same."""

import json

import pytest

from everbrook.protocol.errors import InvalidRequest
from everbrook.protocol.subscriptions import Config
from everbrook.protocol.subscriptions.config import (
    MAX_STREAMS,
    parse_config,
    parse_path,
    parse_paths,
    parse_pattern,
    parse_subscription_id,
)

ROOT = b"/v1/stream/"
BUCKET = b"/ds/buck/"
WEBHOOK = {"url": "https://worker.example/hook"}


def hook(**fields: object) -> dict[str, object]:
    """A request for a webhook subscription."""
    return {"type": "webhook", "pattern": "events/*", "webhook": WEBHOOK, **fields}


def parsed(request: dict[str, object], root: bytes = ROOT) -> Config:
    return parse_config(json.dumps(request).encode(), root)


def test_a_webhook_subscription_has_all_that_was_said_of_it() -> None:
    """§6.2: the fields."""
    config = parsed(hook(streams=["b", "a"], lease_ttl_ms=5000, description="d"))

    assert config == Config("webhook", "events/*", ("a", "b"), WEBHOOK["url"], None, 5000, "d")


def test_a_pull_wake_subscription_has_a_wake_stream() -> None:
    """§6.2: `wake_stream`, and a lease of 30 seconds unless another one is asked for."""
    config = parsed({"type": "pull-wake", "streams": ["a"], "wake_stream": "/wake/pool/"})

    assert config == Config("pull-wake", None, ("a",), None, "wake/pool", 30_000)


@pytest.mark.parametrize(
    "changed",
    [
        {"streams": ["/a", "b/"]},
        {"streams": ["b", "a", "a"]},
        {"pattern": "/events/*/"},
        {"lease_ttl_ms": 30_000},
        {"wake_stream": "ignored"},
        {"description": None},
        {"of": "no concern"},
    ],
)
def test_what_means_the_same_has_the_same_hash(changed: dict[str, object]) -> None:
    """§6.2: the hash is of the normalised configuration."""
    assert parsed(hook(streams=["a", "b"]) | changed).digest == parsed(hook(streams=["a", "b"])).digest


@pytest.mark.parametrize(
    "changed",
    [
        {"pattern": "events/**"},
        {"pattern": None},
        {"streams": ["a"]},
        {"streams": []},
        {"webhook": {"url": "https://other.example/"}},
        {"lease_ttl_ms": 30_001},
        {"description": ""},
        {"description": "other"},
        {"type": "pull-wake", "wake_stream": "w"},
    ],
)
def test_what_means_another_thing_has_another_hash(changed: dict[str, object]) -> None:
    """§6.2: the hash includes type, pattern, streams, delivery, lease and description."""
    assert parsed(hook(streams=["a", "b"]) | changed).digest != parsed(hook(streams=["a", "b"])).digest


@pytest.mark.parametrize(
    "request_, reason",
    [
        ({"type": "mail", "pattern": "*"}, "describe a subscription"),
        ({"pattern": "*"}, "describe a subscription"),
        (hook(streams="a"), "describe a subscription"),
        (hook(lease_ttl_ms=1.5), "describe a subscription"),
        ({"type": "webhook", "webhook": WEBHOOK}, "at least one of pattern and streams"),
        (hook(pattern="", streams=[]), "at least one of pattern and streams"),
        (hook(lease_ttl_ms=999), "from 1000 to 600000, got 999"),
        (hook(lease_ttl_ms=600_001), "from 1000 to 600000, got 600001"),
        (hook(description="d" * 1001), "at most 1000 characters"),
        (hook(webhook=None), "needs webhook.url"),
        (hook(webhook={"url": ""}), "needs webhook.url"),
        ({"type": "pull-wake", "pattern": "*"}, "needs wake_stream"),
        ({"type": "pull-wake", "pattern": "*", "wake_stream": "/"}, "is not a stream path"),
        (hook(pattern="a//b"), "segments joined by slashes"),
        (hook(streams=["a/../b"]), "'a/../b' is not a stream path"),
    ],
)
def test_a_request_that_describes_no_subscription_is_told_why(request_: dict[str, object], reason: str) -> None:
    """§6.2: what is required of the fields."""
    with pytest.raises(InvalidRequest, match=reason):
        parsed(request_)


@pytest.mark.parametrize("lease_ttl_ms", [1000, 600_000])
def test_a_lease_lasts_from_a_second_to_ten_minutes(lease_ttl_ms: int) -> None:
    """§6.2: `lease_ttl_ms`."""
    assert parsed(hook(lease_ttl_ms=lease_ttl_ms)).lease_ttl_ms == lease_ttl_ms


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"type": "webhook", "pattern": "\\ud800"}'])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the body must describe a subscription"):
        parse_config(body, ROOT)


@pytest.mark.parametrize("pattern, normal", [("a", "a"), ("//a/*/", "a/*"), ("x" * 400, "x" * 400)])
def test_slashes_around_a_pattern_mean_nothing(pattern: str, normal: str) -> None:
    assert parse_pattern(pattern) == normal


@pytest.mark.parametrize("pattern", ["", "/", "a//b", "x" * 401])
def test_a_pattern_is_segments_within_bounds(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="pattern must be segments"):
        parse_pattern(pattern)


@pytest.mark.parametrize("path, normal", [("a/b", "a/b"), ("/a/", "a"), ("50%", "50%"), ("a%2Fb", "a%2Fb"), ("é", "é")])
def test_a_path_stands_for_itself_escapes_included(path: str, normal: str) -> None:
    """§6: paths in bodies are stream-root-relative paths, not URLs."""
    assert parse_path(path, ROOT) == normal


@pytest.mark.parametrize("path", ["", "a//b", ".", "a/..", "a\\b", "a\0", "__ds/x", "x" * 401, "\ud800"])
def test_a_path_that_no_stream_can_have_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a stream path"):
        parse_path(path, ROOT)


@pytest.mark.parametrize("path", ["a/b", "streams", ""])
def test_in_a_bucket_paths_are_those_of_the_bucket(path: str) -> None:
    """002 §1.1: a stream id in a bucket must not contain a slash."""
    with pytest.raises(InvalidRequest, match="is not a stream path"):
        parse_path(path, BUCKET)
    assert parse_path("a", BUCKET) == "a"


def test_more_streams_than_anybody_lists_are_refused() -> None:
    paths = ["a", *["/b"] * (MAX_STREAMS - 1)]

    assert parse_paths(paths, ROOT) == ["a", *["b"] * (MAX_STREAMS - 1)]
    with pytest.raises(InvalidRequest, match="at most 10000 streams at once, got 10001"):
        parse_paths([*paths, "c"], ROOT)


@pytest.mark.parametrize("subscription_id", ["s", "é", "a b", "a%2Fb", "x" * 200])
def test_the_creator_of_a_subscription_chooses_its_id(subscription_id: str) -> None:
    """§6.1: the id is client-provided."""
    assert parse_subscription_id(subscription_id.encode()) == subscription_id


@pytest.mark.parametrize("subscription_id", [b"", b"a/b", b"a\n", b"x" * 201, b"\x00", b"\xff"])
def test_an_id_that_is_no_segment_of_text_is_refused(subscription_id: bytes) -> None:
    with pytest.raises(InvalidRequest, match="a subscription id"):
        parse_subscription_id(subscription_id)


def test_the_wake_stream_is_not_among_the_streams_that_it_tells_of() -> None:
    """A wake would be news for itself, without end."""
    with pytest.raises(InvalidRequest):
        parsed({"type": "pull-wake", "streams": ["a", "wake"], "wake_stream": "wake"})


@pytest.mark.parametrize("wake_stream", ["__registry__", "/__registry__/"])
def test_the_registry_is_no_wake_stream(wake_stream: str) -> None:
    """The server alone writes it. In a bucket a stream may be called so."""
    request: dict[str, object] = {"type": "pull-wake", "streams": ["a"], "wake_stream": wake_stream}

    with pytest.raises(InvalidRequest, match="wake_stream must be a stream that can be written to"):
        parsed(request)
    assert parsed(request, BUCKET).wake_stream == "__registry__"
