"""Going on after a bootstrap, and ordinary event streams beside the extensions (002 §3.3, §4)."""

import base64
import json

import pytest

from tests.conformance.extensions.client import query
from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.streams import Namespace, Stream


@pytest.fixture
def folded(stream: Stream) -> Stream:
    """A stream of text with a snapshot and an update after it."""
    stream.published(stream.append(b"one"), b"snapshot")
    stream.append(b"two")
    return stream


def test_bootstrap_ends_at_the_tail_of_its_moment(folded: Stream) -> None:
    """002 §3.3: /bootstrap returns an ordered initialization payload once."""
    first = folded.bootstrap()
    folded.append(b"three")
    second = folded.bootstrap()
    counts = [len(parse_bootstrap(answer.headers["content-type"], answer.body)) for answer in (first, second)]
    assert counts == [2, 3]


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_bootstrap_does_not_wait(folded: Stream, live: str) -> None:
    """002 §3.3: /bootstrap does not support live=sse or live=long-poll."""
    assert folded.bootstrap(live=live).status == 400
    assert folded.bootstrap(offset=folded.tail, live=live).status == 400


def test_ordinary_reads_go_on_where_bootstrap_ended(folded: Stream) -> None:
    """002 §3.3: clients MUST continue tailing through the ordinary stream read APIs."""
    offset = folded.bootstrap().next_offset
    assert folded.read(offset=offset).body == b""
    folded.append(b"three")
    assert folded.read(offset=offset).body == b"three"


def test_an_event_stream_goes_on_where_bootstrap_ended(folded: Stream) -> None:
    """002 §3.3: clients SHOULD prefer live=sse."""
    offset = folded.bootstrap().next_offset
    _, events = folded.client.follow(query(folded.path, offset=offset, live="sse"))
    tail = folded.append(b"three")
    assert next(event.data for event in events if event.type == "data") == "three"
    assert json.loads(next(events).data)["streamNextOffset"] == tail


def test_a_long_poll_goes_on_where_bootstrap_ended(folded: Stream) -> None:
    """002 §3.3: and fall back to live=long-poll when SSE is unavailable."""
    offset = folded.bootstrap().next_offset
    waiting = folded.client.upload("GET", query(folded.path, offset=offset, live="long-poll"), 0)
    tail = folded.append(b"three")
    answer = waiting.answer()
    assert (answer.status, answer.body, answer.next_offset) == (200, b"three", tail)


# Event streams (§4)


def test_an_event_stream_of_bytes_is_base64_and_says_so(namespace: Namespace) -> None:
    """002 §4: payloads are raw base64 text and the response MUST include stream-sse-data-encoding: base64."""
    stream = namespace.fresh("application/octet-stream", b"\x00\xff\r\n", b"two")
    head, events = stream.client.follow(query(stream.path, offset="-1", live="sse"))
    assert head.headers["stream-sse-data-encoding"] == "base64"
    payload = b""
    while len(payload) < 7:
        payload += base64.b64decode(next(event.data for event in events if event.type == "data"), validate=True)
    assert payload == b"\x00\xff\r\ntwo"


def test_a_snapshot_changes_nothing_about_event_streams_of_bytes(namespace: Namespace) -> None:
    """002 §4: extension endpoints MUST NOT redefine the payload shape of ordinary binary SSE event: data frames."""
    stream = namespace.fresh("application/octet-stream", b"one")
    offset = stream.published(stream.tail, b"snapshot")
    stream.append(b"\x01two")
    head, events = stream.client.follow(query(stream.path, offset=offset, live="sse"))
    assert head.headers["stream-sse-data-encoding"] == "base64"
    assert [next(events).data, json.loads(next(events).data)["streamNextOffset"]] == [
        base64.b64encode(b"\x01two").decode(),
        stream.tail,
    ]
