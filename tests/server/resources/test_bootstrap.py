"""A bootstrap while its stream is cut or dropped: the whole of one moment, or visibly not whole (002 §3)."""

import pytest

from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, render

MESSAGE = b"m" * 100_000
COUNT = 60
TINY_BUFFER = 4096


def fill(wire: Wire, path: str) -> str:
    wire.create(path)
    return [wire.append(path, MESSAGE).next_offset for _ in range(COUNT)][-1]


def begin(server: RunningServer, connect: Connect, path: str) -> Wire:
    """Begin a bootstrap that the client does not read on."""
    reader = connect(server, TINY_BUFFER).send(render("GET", f"{path}/__ds/bootstrap"))
    assert eventually(server.unsent_bytes)
    return reader


def test_a_cut_does_not_reach_a_bootstrap_that_is_under_way(start: Start, connect: Connect, path: str) -> None:
    server = start()
    writer = connect(server)
    tail = fill(writer, path)
    reader = begin(server, connect, path)
    assert writer.request("PUT", f"{path}/__ds/snapshot/{tail}", b"all").status == 204
    assert reader.read().body.count(MESSAGE) == COUNT
    assert eventually(lambda: server.call(server.engine.inspect).memory_bytes < len(MESSAGE))


def test_a_bootstrap_of_a_stream_that_is_dropped_breaks_off(start: Start, connect: Connect, path: str) -> None:
    server = start()
    writer = connect(server)
    fill(writer, path)
    reader = begin(server, connect, path)
    assert writer.request("DELETE", path).status == 204
    with pytest.raises(EOFError):
        reader.read()


def test_a_bootstrap_of_a_fork_that_is_dropped_after_its_source_was_cut_breaks_off(
    start: Start, connect: Connect, path: str
) -> None:
    """Dropping the fork lets go of what only it had made its source keep."""
    server = start()
    writer = connect(server)
    tail = fill(writer, path)
    assert writer.request("PUT", f"{path}-fork", stream_forked_from=path).status == 201
    reader = begin(server, connect, f"{path}-fork")
    assert writer.request("PUT", f"{path}/__ds/snapshot/{tail}", b"all").status == 204
    assert writer.request("DELETE", f"{path}-fork").status == 204
    with pytest.raises(EOFError):
        reader.read()


def test_a_bootstrap_of_a_soft_deleted_stream_goes_on(start: Start, connect: Connect, path: str) -> None:
    server = start()
    writer = connect(server)
    fill(writer, path)
    assert writer.request("PUT", f"{path}-fork", stream_forked_from=path).status == 201
    reader = begin(server, connect, path)
    assert writer.request("DELETE", path).status == 204
    assert reader.read().body.count(MESSAGE) == COUNT


def test_a_client_that_leaves_lets_go_of_what_it_held(start: Start, connect: Connect, path: str) -> None:
    server = start()
    writer = connect(server)
    tail = fill(writer, path)
    reader = begin(server, connect, path)
    assert writer.request("PUT", f"{path}/__ds/snapshot/{tail}", b"all").status == 204
    assert server.call(server.engine.inspect).memory_bytes > COUNT * len(MESSAGE)
    reader.close()
    assert eventually(lambda: server.call(server.engine.inspect).memory_bytes < len(MESSAGE))
