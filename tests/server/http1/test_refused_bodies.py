"""Bodies that are too large."""

import pytest

from everbrook.server.tuning import ConnectionTuning, ListenerTuning, ServerTuning
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, chunked, render

MAX_BYTES = 1000


@pytest.fixture
def small(start: Start) -> RunningServer:
    return start(limits__max_append_bytes=MAX_BYTES)


@pytest.fixture
def wire(small: RunningServer, connect: Connect, path: str) -> Wire:
    wire = connect(small)
    wire.create(path)
    return wire


def test_a_body_of_exactly_the_limit_is_taken(wire: Wire, path: str) -> None:
    assert wire.append(path, b"a" * MAX_BYTES).status == 204
    wire.ask("POST", path, content_type="text/plain", transfer_encoding="chunked").send(chunked(*[b"a" * 100] * 10))
    assert wire.read().status == 204


def test_a_declared_body_is_refused_before_it_is_sent(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_type="text/plain", content_length=str(MAX_BYTES + 1))
    assert wire.read().refusal == (413, "payload_too_large")
    assert wire.ended()


def test_a_chunked_body_is_refused_when_it_grows_too_large(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_type="text/plain", transfer_encoding="chunked").send(chunked(*[b"a" * 300] * 4))
    assert wire.read().refusal == (413, "payload_too_large")
    assert wire.ended()


def test_a_put_is_bounded_too(wire: Wire, path: str) -> None:
    wire.ask("PUT", f"{path}/other", b"a" * (MAX_BYTES + 1), content_type="text/plain")
    assert wire.read().refusal == (413, "payload_too_large")


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_client_that_reads_only_after_sending_everything_gets_the_answer(wire: Wire, path: str, framing: str) -> None:
    """Closing at once would reset the connection and take the answer with it."""
    body = b"a" * 5_000_000
    if framing == "declared":
        wire.send(render("POST", path, body, content_type="text/plain"))
    else:
        wire.ask("POST", path, content_type="text/plain", transfer_encoding="chunked").send(chunked(body))
    assert wire.read().refusal == (413, "payload_too_large")


def test_nothing_of_a_refused_body_is_stored(wire: Wire, path: str, small: RunningServer, connect: Connect) -> None:
    wire.append(path, b"a" * (MAX_BYTES + 1))
    assert connect(small).request("HEAD", path).next_offset == f"{0:016d}"


def test_a_refused_body_is_not_kept(wire: Wire, path: str, small: RunningServer) -> None:
    wire.ask("POST", path, content_type="text/plain", transfer_encoding="chunked")
    wire.send_slowly([b"%x\r\n%b\r\n" % (100_000, b"a" * 100_000)] * 20, 0.0)
    (held,) = small.connections
    assert small.call(held.inspect).held_body_bytes <= 2 * MAX_BYTES


def test_a_refused_client_that_goes_on_sending_is_heard_out_for_a_while_only(
    start: Start, connect: Connect, path: str
) -> None:
    tuning = ListenerTuning(tick_secs=0.02, connection=ConnectionTuning(linger_secs=0.1))
    server = start(tuning=ServerTuning(listener=tuning), limits__max_append_bytes=MAX_BYTES)
    wire = connect(server)
    wire.ask("POST", path, content_type="text/plain", content_length="1000000000")
    assert wire.read().status == 413
    assert eventually(lambda: not server.connections)
