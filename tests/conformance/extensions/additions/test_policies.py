"""Retention policies: how they are given, and what they leave. They are applied about once a second.

The streams that must be cut are made once for each server, so that all of them wait for the same second.
"""

import time
from collections.abc import Callable

import pytest

from tests.conformance.extensions.client import Client
from tests.conformance.extensions.multipart import Part, parse_bootstrap
from tests.conformance.extensions.servers import Server, require
from tests.conformance.extensions.streams import SURFACES, Namespace, Stream, fresh_name

pytestmark = pytest.mark.extension("retention")

PATIENCE_SECS = 60.0
TEN = [b"%04d" % number for number in range(10)]
POLICIES = {
    "messages": "max-messages=3",
    "bytes": "max-bytes=10",
    "age": "max-age=1",
    "all": "max-age=1000, max-bytes=21, max-messages=4",
    "moving": "max-messages=1",
    "wide": "max-age=1000, max-bytes=1000, max-messages=1000",
    "folded": "max-messages=2",
    "kept": "max-messages=2",
}

MALFORMED = [
    "", "max-age", "max-age=", "max-age=0", "max-age=-1", "max-age=1.5", "max-age=x", "max-size=1", "max-age=1, x=2",
    "max-age=1, max-age=2", "max-age=1,", "max-age=1 max-bytes=2", "keep",
]  # fmt: skip


def eventually(claim: Callable[[], object]) -> bool:
    """Whether a claim becomes true in good time."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def earliest(stream: Stream) -> int:
    return int(stream.head().headers.get("stream-earliest-offset", "0"))


@pytest.fixture(scope="session")
def prepared(server: Server) -> dict[str, str]:
    """The names of namespaces in which each policy has a stream with ten messages."""
    require(server, "retention")
    names = {surface: fresh_name() for surface in SURFACES}
    with Client(server.base_url) as client:
        for surface, name in names.items():
            prepare(Namespace(client, surface, name).make())
    return names


def prepare(namespace: Namespace) -> None:
    for name, policy in POLICIES.items():
        stream = namespace.stream(name).create("text/plain", stream_retention=policy)
        if name == "kept":
            stream.published(stream.tail, b"nothing yet", stream_snapshot_history="keep")
        stream.append(*TEN[:4])
        if name == "folded":
            stream.published(stream.tail, b"four folded", content_type="text/csv", stream_snapshot_history="keep")
        stream.append(*TEN[4:])


@pytest.fixture
def policed(prepared: dict[str, str], client: Client, surface: str) -> Namespace:
    return Namespace(client, surface, prepared[surface])


# What a policy leaves


@pytest.mark.parametrize("name, messages", [("messages", 3), ("bytes", 2), ("all", 4)])
def test_a_policy_leaves_as_many_messages_as_it_allows(policed: Namespace, name: str, messages: int) -> None:
    """Ours: a cut at the first boundary from which all bounds hold."""
    stream = policed.stream(name)
    assert eventually(lambda: earliest(stream) == 4 * (10 - messages)), earliest(stream)
    assert stream.read(offset=f"{earliest(stream):016d}").body == b"".join(TEN[-messages:])
    assert stream.read(offset="-1").status == 410


def test_a_policy_goes_on_with_its_own_snapshot(prepared: dict[str, str], client: Client) -> None:
    """Ours: an automatic snapshot moves on with the cut."""
    streams = [Namespace(client, surface, name).stream("moving") for surface, name in prepared.items()]
    assert eventually(lambda: [earliest(stream) for stream in streams] == [36, 36])
    for stream in streams:
        stream.append(b"one more")
    assert eventually(lambda: [earliest(stream) for stream in streams] == [40, 40])
    assert [int(stream.head().headers["stream-snapshot-offset"]) for stream in streams] == [40, 40]


def test_old_messages_go(policed: Namespace) -> None:
    """Ours: max-age in seconds."""
    stream = policed.stream("age")
    assert eventually(lambda: earliest(stream) == 40), earliest(stream)
    page = stream.read(offset=stream.tail)
    assert (page.status, page.body) == (200, b"")


def test_a_policy_that_holds_cuts_nothing(policed: Namespace) -> None:
    """Ours: bounds that hold change nothing."""
    assert eventually(lambda: earliest(policed.stream("messages")) > 0)
    assert policed.stream("wide").read(offset="-1").body == b"".join(TEN)
    assert policed.stream("wide").latest().status == 404


def test_a_policy_that_cuts_publishes_an_empty_snapshot(policed: Namespace) -> None:
    """Ours: where there is none an automatic empty snapshot is published at the cut."""
    stream = policed.stream("messages")
    assert eventually(lambda: earliest(stream) == 28)
    answer = stream.bootstrap()
    first, *updates = parse_bootstrap(answer.headers["content-type"], answer.body)
    assert int(answer.headers["stream-snapshot-offset"]) == 28
    assert first == Part("application/octet-stream", b"")
    assert [part.body for part in updates] == TEN[-3:]


@pytest.mark.parametrize("name, end", [("folded", 16), ("kept", 0)])
def test_no_policy_cuts_past_the_snapshot_of_a_client(policed: Namespace, name: str, end: int) -> None:
    """Ours: never past a client's snapshot."""
    stream = policed.stream(name)
    assert eventually(lambda: earliest(policed.stream("messages")) > 0)
    assert eventually(lambda: earliest(stream) == end), earliest(stream)
    assert int(stream.bootstrap().headers["stream-snapshot-offset"]) == end
    assert stream.read(offset=f"{end:016d}").body == b"".join(TEN[end // 4 :])


# How a policy is given


def directives(value: str) -> set[str]:
    return {directive.strip() for directive in value.split(",")}


def test_a_policy_is_shown_by_head(namespace: Namespace) -> None:
    """Ours: Stream-Retention on HEAD if any."""
    policy = "max-age=86400, max-bytes=1000000, max-messages=500"
    shown = namespace.stream("a").create("text/plain", stream_retention=policy).head().headers
    assert directives(shown["stream-retention"]) == directives(policy)
    assert "stream-retention" not in namespace.stream("b").create().head().headers


def test_a_malformed_policy_is_400(namespace: Namespace) -> None:
    """Ours: at least one; positive integers; unknown or repeated directive 400."""
    statuses = {value: namespace.stream("s").put(stream_retention=value).status for value in MALFORMED}
    assert statuses == dict.fromkeys(MALFORMED, 400)


def test_a_stream_asked_for_again_must_have_the_same_policy(namespace: Namespace) -> None:
    """Ours: a PUT of an existing stream with another policy: 409."""
    stream = namespace.stream("s")
    policies = ["max-age=5, max-bytes=9", "max-bytes=9,max-age=5", "max-age=5", "max-age=5, max-bytes=8"]
    assert [stream.put(stream_retention=policy).status for policy in policies] == [201, 200, 409, 409]


def test_a_bucket_gives_its_streams_a_policy(client: Client) -> None:
    """Ours: a stream without takes its bucket's."""
    bucket = Namespace(client, "bucket", fresh_name()).make(stream_retention="max-messages=7")
    assert client.get(bucket.path).json["retention"] == "max-messages=7"
    own = bucket.stream("own").create("text/plain", stream_retention="max-bytes=3")
    assert bucket.stream("s").create().head().headers["stream-retention"] == "max-messages=7"
    assert own.head().headers["stream-retention"] == "max-bytes=3"


def test_a_malformed_policy_of_a_bucket_is_400(missing: Namespace) -> None:
    """Ours: as on a stream."""
    assert missing.client.request("PUT", missing.path, stream_retention="max-age=0").status == 400
    assert missing.client.get(missing.path).status == 404


def test_a_fork_has_the_policy_of_its_source_unless_it_brings_one(namespace: Namespace) -> None:
    """Ours: a fork without takes its source's."""
    source = namespace.stream("source").create("text/plain", stream_retention="max-messages=7")
    for name, headers in (("same", {}), ("other", {"stream_retention": "max-bytes=3"})):
        assert namespace.stream(name).put(stream_forked_from=source.path, **headers).status == 201
    shown = [namespace.stream(name).head().headers["stream-retention"] for name in ("same", "other")]
    assert shown == ["max-messages=7", "max-bytes=3"]
