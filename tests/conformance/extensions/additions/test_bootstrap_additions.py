"""Bootstrap beyond 002: closed streams, HEAD, and one tail while appends go on."""

import threading

import pytest

from tests.conformance.extensions.client import Client
from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.streams import Stream

pytestmark = pytest.mark.extension("bootstrap")


def test_bootstrap_of_a_closed_stream_says_so(stream: Stream) -> None:
    """Ours: Stream-Closed: true if closed."""
    stream.append(b"one")
    assert "stream-closed" not in stream.bootstrap().headers
    stream.close()
    assert stream.bootstrap().headers["stream-closed"] == "true"


def test_bootstrap_is_always_up_to_date(stream: Stream) -> None:
    """Ours: Stream-Up-To-Date: true."""
    stream.append(b"one")
    assert stream.bootstrap().headers["stream-up-to-date"] == "true"


def test_head_of_bootstrap_gives_the_head_alone(stream: Stream) -> None:
    """Ours: HEAD gives the head alone."""
    offset = stream.published(stream.append(b"one"))
    head = stream.client.request("HEAD", stream.resource("bootstrap"))
    assert (head.status, head.body) == (200, b"")
    assert (head.headers["stream-snapshot-offset"], head.next_offset) == (offset, stream.tail)
    assert head.headers["content-type"].startswith("multipart/mixed; boundary=")


def test_bootstrap_is_whole_at_one_tail_while_appends_go_on(stream: Stream) -> None:
    """Ours: consistent at one tail even while appends go on."""
    stream.published(stream.append(b"0"), b"zero")
    stop = threading.Event()

    def write() -> None:
        with Client(stream.client.base_url) as client:
            writer, number = Stream(client, stream.path, stream.resources), 0
            while not stop.is_set():
                number += 1
                writer.append(b"%d" % number)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        answers = [stream.bootstrap() for _ in range(10)]
    finally:
        stop.set()
        thread.join()
    for answer in answers:
        first, *updates = [part.body for part in parse_bootstrap(answer.headers["content-type"], answer.body)]
        assert (first, updates) == (b"zero", [b"%d" % number for number in range(1, len(updates) + 1)])
        assert int(answer.next_offset) == 1 + sum(map(len, updates))
