# Written by tools/mirror.py from tests/client/async_/test_interrupted.py: change that file, not this one.
"""Whoever stops or is stopped halfway leaves nothing behind: readers that are closed, clients, cancelled writers."""

import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import httpx2
import pytest

from everbrook.client import Mode
from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import Condition, sleep, spawn
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import ClientError
from everbrook.client.offsets import FileOffsets
from everbrook.client.retry import Retry

PATIENCE_SECS = 60.0

_numbers = count()


def fresh(client: Client) -> Stream[object]:
    stream: Stream[object] = client.stream(f"interrupted-{next(_numbers)}")
    stream.create()
    return stream


class Following:
    """A loop over a reader, in the background."""

    def __init__(self, stream: Stream[object], mode: Mode) -> None:
        self.reader = stream.follow(mode=mode)
        self.values: list[object] = []
        self._changed = Condition()
        self._task = spawn(self._run, name="following")

    def _run(self) -> None:
        for value in self.reader:
            with self._changed:
                self.values.append(value)
                self._changed.notify_all()

    def until(self, number: int) -> bool:
        with self._changed:
            return self._changed.wait_until(lambda: len(self.values) >= number, PATIENCE_SECS)

    def end(self) -> None:
        self.reader.close()
        self._task.join()


@pytest.mark.parametrize("mode", ["sse", "long-poll"])
def test_a_reader_that_is_closed_ends_the_loop_over_it(client: Client, mode: Mode) -> None:
    stream = fresh(client)
    following = Following(stream, mode)
    stream.append(1)
    assert following.until(1)
    following.end()
    assert following.values == [1]


def test_closing_readers_at_any_moment_harms_no_other_request(client: Client) -> None:
    stream = fresh(client)
    for number in range(30):
        following = Following(stream, "sse")
        stream.append(number)
        sleep(number % 5 / 1000)
        following.end()
    assert stream.read().all() == list(range(30))


def test_line_ends_come_as_they_were_written(client: Client) -> None:
    """Events can't tell CRLF from LF: such a text is read again in another way."""
    stream: Stream[object] = client.stream(f"interrupted-{next(_numbers)}")
    stream.create(content_type="text/plain")
    following = Following(stream, "auto")
    for number, text in enumerate(("a\n", "b\r\n", "c\r\n"), 1):
        stream.append(text)
        assert following.until(number)
    following.end()
    assert "".join(map(str, following.values)) == "a\nb\r\nc\r\n"


def test_a_reader_may_be_closed_before_and_after_it_was_read(client: Client) -> None:
    stream = fresh(client)
    reader = stream.follow()
    reader.close()
    assert reader.all() == []
    reader.close()


def test_a_closed_client_asks_nothing_more(server: str) -> None:
    client = Client(server)
    stream = fresh(client)
    client.close()
    with pytest.raises(ClientError, match="this client is closed"):
        stream.head()
    client.close()


def test_a_client_of_the_users_own_stays_open(server: str) -> None:
    with httpx2.Client() as http:
        with Client(server, http=http) as client:
            stream = fresh(client)
        assert http.get(stream.url).status_code == 200


def test_a_client_of_the_users_own_may_follow_redirects(server: str) -> None:
    with httpx2.Client(follow_redirects=True) as http, Client(server, http=http) as client:
        stream = fresh(client)
        stream.publish(b"state", offset=stream.append(1))
        found = stream.snapshot()
    assert found is not None
    assert found.data == b"state"


def test_leaving_a_follow_early_gives_its_connection_back(server: str) -> None:
    """The pool has one connection: if it is not given back, the next request times out."""
    one = httpx2.Client(limits=httpx2.Limits(max_connections=1))
    with one, Client(server, http=one, retry=Retry(max_attempts=1), timeout_secs=2.0) as client:
        stream = fresh(client)
        stream.append(1)
        pages = stream.follow(mode="sse").pages()
        assert next(pages).values == [1]
        stream.append(2)
        assert next(pages).values == [2]  # over the event stream
        pages.close()
        assert stream.read().all() == [1, 2]


def fail_while_producing(stream: Stream[object]) -> None:
    with stream.producer(linger_secs=60) as producer:
        producer.append(1)
        raise KeyError


def test_a_producer_that_was_left_by_an_error_has_sent_what_it_took(client: Client) -> None:
    stream = fresh(client)
    with pytest.raises(KeyError):
        fail_while_producing(stream)
    assert stream.read().all() == [1]


def test_a_message_that_was_not_handled_comes_again(client: Client, tmp_path: Path) -> None:
    """A value counts as handled when the next one is asked for, whatever becomes of the loop."""
    stream = fresh(client)
    stream.extend([1, 2, 3])
    offsets = FileOffsets(tmp_path / "offset")
    with closing(iter(stream.follow(offsets=offsets))) as values:
        assert [next(values), next(values)] == [1, 2]
    with closing(iter(stream.follow(offsets=offsets))) as values:
        assert next(values) == 2


def test_a_flush_returns_though_others_go_on(client: Client) -> None:
    stream = fresh(client)
    stop = threading.Event()
    with stream.producer(linger_secs=0) as producer:

        def go_on() -> None:
            while not stop.is_set():
                producer.append("other")
                sleep(0)

        others = spawn(go_on, name="others")
        producer.append("mine")
        producer.flush()
        stop.set()
        others.join()
    assert "mine" in stream.read().all()


def test_a_producer_that_was_detached_does_not_pretend_to_close(client: Client) -> None:
    stream = fresh(client)
    producer = stream.producer()
    producer.detach()
    with pytest.raises(ValueError, match="closed or detached"):
        producer.close()
    assert not stream.head().closed


def test_many_who_append_at_once_each_get_an_offset_and_nothing_is_lost(client: Client) -> None:
    stream = fresh(client)
    offsets: list[str] = []

    def append(first: int) -> None:
        offsets.extend([stream.append(number) for number in range(first, first + 50)])

    tasks = [spawn(append, first, name="append") for first in range(0, 400, 50)]
    for task in tasks:
        task.join()
    found = stream.read().all()
    assert sorted(found, key=str) == sorted(range(400), key=str)
    assert len(offsets) == 400
