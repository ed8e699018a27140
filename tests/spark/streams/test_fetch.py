"""Reading: many streams over one connection, servers that know nothing of bounds, and connections that break."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from everbrook import Client
from everbrook.spark.connection import Connection, connect, disconnect
from everbrook.spark.options import ServerOptions
from everbrook.spark.streams.bundle import StreamPiece, bundled
from everbrook.spark.streams.fetch import ReadTask, read_task
from everbrook.spark.streams.losses import DataLoss
from everbrook.spark.streams.offsets import BEGINNING, offset_of
from everbrook.spark.streams.ranges import Range


def task(ranges: list[Range], *, exact: bool = True) -> ReadTask:
    return ReadTask(tuple(ranges), ("application/json",) * len(ranges), exact)


def messages(told: Iterator[StreamPiece]) -> list[tuple[str, bytes]]:
    return [
        (stream, payload)
        for bundle in bundled(told)
        for stream, payload in zip(bundle.streams().to_pylist(), bundle.payloads().to_pylist(), strict=True)
    ]


@pytest.fixture
def many(client: Client, prefix: str) -> list[Range]:
    """Streams with three messages each, of which the first two are to be read."""
    for number in range(40):
        client.stream(f"{prefix}ü {number:02}").create()
        client.stream(f"{prefix}ü {number:02}").extend([number, number, "more"])
    return [
        Range(f"{prefix}ü {number:02}", BEGINNING, offset_of(2 * len(f"{number},")), fresh=True) for number in range(40)
    ]


def expected(ranges: list[Range]) -> list[tuple[str, bytes]]:
    return [(range_.name, str(number).encode()) for number, range_ in enumerate(ranges) for _ in range(2)]


def test_many_streams_are_read_in_order(connection: Connection, many: list[Range]) -> None:
    assert messages(read_task(connection, task(many), fail_on_data_loss=True)) == expected(many)


def test_a_stream_among_many_that_is_gone_is_a_loss(client: Client, connection: Connection, many: list[Range]) -> None:
    client.stream(many[20].name).delete()
    with pytest.raises(DataLoss, match="20' is gone"):
        list(read_task(connection, task(many), fail_on_data_loss=True))


def test_the_others_are_read_if_one_may_be_missing(client: Client, connection: Connection, many: list[Range]) -> None:
    client.stream(many[20].name).delete()
    found = messages(read_task(connection, task(many), fail_on_data_loss=False))
    assert found == [each for each in expected(many) if each[0] != many[20].name]


@pytest.mark.parametrize("count", [1, 40])
def test_a_stream_that_was_created_anew_is_a_loss(
    client: Client, connection: Connection, many: list[Range], count: int
) -> None:
    there = [replace(each, incarnation=client.stream(each.name).head().incarnation) for each in many[:count]]
    assert messages(read_task(connection, task(there), fail_on_data_loss=True)) == expected(there)
    stream = client.stream(there[-1].name)
    stream.delete()
    stream.create(data=[7, 7, 7, 7])
    assert messages(read_task(connection, task(there), fail_on_data_loss=False)) == expected(there[:-1])
    with pytest.raises(DataLoss, match="has another incarnation"):
        list(read_task(connection, task(there), fail_on_data_loss=True))


def test_an_offset_where_no_message_begins_is_a_loss(client: Client, connection: Connection, prefix: str) -> None:
    client.stream(f"{prefix}a").create(data=["a long message"])
    with pytest.raises(DataLoss, match="lies inside a message"):
        list(read_task(connection, task([Range(f"{prefix}a", offset_of(2), offset_of(5))]), fail_on_data_loss=True))


def test_a_stream_among_many_may_be_larger_than_a_page(
    client: Client, connection: Connection, prefix: str, many: list[Range]
) -> None:
    large = client.stream(f"{prefix}large")
    large.create()
    large.extend("x" * 300_000 for _ in range(30))
    ranges = [*many, Range(large.name, BEGINNING, large.head().offset)]
    found = messages(read_task(connection, task(ranges), fail_on_data_loss=True))
    assert len(found) == 80 + 30


class BreakingProxy:
    """Passes bytes on to a server, but hangs up after some."""

    def __init__(self, url: str, after_bytes: int) -> None:
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._left = after_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.broken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, breaks: bool) -> None:  # noqa: FBT001
        with closing(source), closing(sink):
            while True:
                try:
                    data = source.recv(4096)
                    if not data:
                        break
                    if breaks and 0 < self._left <= len(data):
                        self.broken, self._left = self.broken + 1, 0
                        sink.sendall(data[: len(data) // 2])
                        break
                    self._left -= len(data) if breaks and self._left else 0
                    sink.sendall(data)
                except OSError:
                    break
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


@pytest.mark.parametrize("after_bytes", [1, 5_000, 20_000])
def test_a_connection_that_breaks_goes_unnoticed(server: str, many: list[Range], after_bytes: int) -> None:
    with closing(BreakingProxy(server, after_bytes)) as proxy:
        connection = connect(ServerOptions(url=proxy.url))
        found = messages(read_task(connection, task(many), fail_on_data_loss=True))
        disconnect()
    assert found == expected(many)
    assert proxy.broken == 1


def test_a_server_without_bounds_is_read_through_a_fork(
    client: Client, connection: Connection, prefix: str, many: list[Range]
) -> None:
    few = many[:3]
    assert messages(read_task(connection, task(few, exact=False), fail_on_data_loss=True)) == expected(few)
    assert not [info.name for info in client.list(prefix) if "spark" in info.name]


def test_a_fork_is_read_from_where_the_query_is(client: Client, connection: Connection, prefix: str) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(data="first")
    start = stream.head().offset
    stream.append("second")
    end = stream.head().offset
    stream.append("third")
    ranges = [Range(stream.name, start, end)]
    assert messages(read_task(connection, task(ranges, exact=False), fail_on_data_loss=True)) == [
        (stream.name, b"second")
    ]
