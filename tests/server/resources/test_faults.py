"""A fault in one answer, reader or follower stops nothing else: the other answers come, and writing goes on."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from everbrook.engine import Callback, CommitTuning, EngineTuning
from everbrook.protocol import KEEP_ALIVE
from everbrook.protocol.errors import StreamDamaged
from everbrook.server.tuning import ServerTuning
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import QUICK_TICKS, GatedStorage, RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.server.observe.scrape import value


class DamagedStorage(GatedStorage):
    """A storage in which the bytes of one stream can't be read."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.set()
        self.raises: Callable[[], Exception] | None = None
        self.damaged = 0

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        if self.raises and incarnation == self.damaged:
            raise self.raises()
        return super().read(incarnation, start, end)


@pytest.fixture
def storage() -> DamagedStorage:
    return DamagedStorage()


@pytest.mark.parametrize("mode", ["sse", "long-poll"])
def test_a_damaged_stream_behind_an_append_stops_no_writes(
    start_either: StartEither, connect: Connect, storage: DamagedStorage, path: str, mode: str
) -> None:
    """An exception in an answer that was parked once stopped all writes, and /readyz went on to say 200."""
    server = start_either(storage)
    wire, other = connect(server), connect(server)
    bad = f"{path}-bad"
    other.create(path)
    other.create(bad, body=b"lost")
    storage.damaged = server.call(lambda: server.engine.readers.find(bad.encode(), 0).committed.identity.incarnation)
    storage.raises = lambda: StreamDamaged("the bytes can't be read")
    storage.gate.clear()
    wire.ask("POST", path, b"a", content_type="text/plain").ask("GET", f"{bad}?offset=-1&live={mode}")
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert wire.read().status == 204
    assert other.append(path, b"b").status == 204
    assert other.get("/readyz").status == 200
    assert wire.read().refusal == (500, "stream_damaged")


def test_a_connection_whose_answer_fails_is_ended(
    start: Start, connect: Connect, storage: DamagedStorage, path: str, faults: pytest.LogCaptureFixture
) -> None:
    """Its client would wait for ever. A read that raises what nobody expects is a bug."""
    server = start(storage)
    wire, other = connect(server), connect(server)
    other.create(path, body=b"x")
    storage.damaged = server.stream(path).committed.identity.incarnation
    storage.raises = lambda: RuntimeError("a bug")
    storage.gate.clear()
    wire.ask("POST", path, b"a", content_type="text/plain").ask("GET", f"{path}?offset=-1&live=sse")
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert wire.read().status == 204
    assert wire.ended()
    assert other.append(path, b"b").status == 204
    assert value(other, "everbrook_faults_total", callback="answer") == 1
    assert "RuntimeError: a bug" in faults.text


# Callbacks of the server


class Once:
    """Raises in the next callback of a kind, before it does its work."""

    def __init__(self, server: RunningServer | Mounted, kind: Callback) -> None:
        self.raised = False
        self._kind = kind
        server.engine.faults.intercept = self

    def __call__(self, kind: Callback, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        if kind is self._kind and not self.raised:
            self.raised = True
            raise RuntimeError("a bug")
        callback(*args)


def test_a_long_poll_whose_end_fails_is_answered(
    start_either: StartEither, connect: Connect, path: str, faults: pytest.LogCaptureFixture
) -> None:
    server = start_either(server__long_poll_timeout_secs=0.05)
    wire = connect(server)
    wire.create(path)
    Once(server, Callback.LIVE)
    assert wire.get(f"{path}?offset=now&live=long-poll").status == 500
    assert value(connect(server), "everbrook_faults_total", callback="live") == 1


def test_an_event_stream_that_fails_to_catch_up_ends(
    start_either: StartEither, connect: Connect, path: str, faults: pytest.LogCaptureFixture
) -> None:
    """It had nothing but keep-alives once."""
    server = start_either(limits__max_page_bytes=4, server__sse_keepalive_secs=0.02)
    wire = connect(server)
    wire.create(path, body=b"page")
    wire.append(path, b"more")
    Once(server, Callback.LIVE)
    told = wire.get(f"{path}?offset=-1&live=sse")
    assert b"page" in told.body
    assert b"more" not in told.body


def test_keep_alives_go_on_after_one_that_failed(
    start: Start, connect: Connect, path: str, faults: pytest.LogCaptureFixture
) -> None:
    server = start(server__sse_keepalive_secs=0.02)
    wire = connect(server)
    wire.create(path)
    once = Once(server, Callback.LIVE)
    wire.ask("GET", f"{path}?offset=-1&live=sse")
    assert eventually(lambda: once.raised)
    wire.read_until(KEEP_ALIVE)
    wire.read_until(KEEP_ALIVE)


def test_a_connection_whose_look_after_fails_is_ended_and_no_other(
    start: Start, connect: Connect, path: str, faults: pytest.LogCaptureFixture
) -> None:
    server = start(tuning=QUICK_TICKS)
    wires = [connect(server), connect(server)]
    for wire in wires:
        assert wire.get("/healthz").status == 200
    failing = server.connections[0]
    once = OnceOf(server, failing.watchdog.check)
    assert eventually(lambda: once.raised)
    assert eventually(lambda: len(server.connections) == 1)
    assert connect(server).get("/healthz").status == 200


class OnceOf(Once):
    """Raises in the next call of one callback."""

    def __init__(self, server: RunningServer, callback: Callable[..., object]) -> None:
        super().__init__(server, Callback.CONNECTION)
        self._callback = callback

    def __call__(self, kind: Callback, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        if callback == self._callback:
            super().__call__(kind, callback, args)
        else:
            callback(*args)


def test_snapshots_are_taken_in_after_a_step_that_failed(
    start_either: StartEither, connect: Connect, path: str, faults: pytest.LogCaptureFixture
) -> None:
    server = start_either()
    connect(server).create(path, body=b"x")
    Once(server, Callback.UPLOAD)
    target = f"{path}/__ds/snapshot/{1:016d}"
    with suppress(AssertionError, OSError):
        connect(server).request("PUT", target, b"lost", content_type="text/plain")
    assert connect(server).request("PUT", target, b"kept", content_type="text/plain").status == 204
    assert connect(server).get(target).body == b"kept"


QUICK_STALLS = ServerTuning(engine=EngineTuning(commit=CommitTuning(stall_secs=0.05, recheck_secs=0.01)))


def test_a_sync_that_hangs_is_told_until_it_returns(
    start_either: StartEither, connect: Connect, storage: DamagedStorage, path: str, faults: pytest.LogCaptureFixture
) -> None:
    server = start_either(storage, QUICK_STALLS)
    wire, other = connect(server), connect(server)
    storage.gate.clear()
    wire.ask("PUT", path, content_type="text/plain")
    assert eventually(lambda: other.get("/readyz").status == 503)
    assert "none has become durable" in str(other.get("/readyz").problem["detail"])
    assert other.get("/healthz").status == 200
    assert value(other, "everbrook_commit_stalled") == 1
    assert eventually(lambda: "in persist\n" in faults.text)
    assert faults.text.count("the commit thread:") == 1
    storage.gate.set()
    assert wire.read().status == 201
    assert other.get("/readyz").status == 200
    assert value(other, "everbrook_commit_stalled") == 0
    assert eventually(lambda: "changes become durable again" in faults.text)


def test_a_mounted_store_that_failed_is_still_read(
    start_either: StartEither, connect: Connect, storage: DamagedStorage, path: str, faults: pytest.LogCaptureFixture
) -> None:
    """Whoever mounted it has other work to do: it takes no more writes, and goes on."""
    wire = connect(start_either(storage))
    wire.create(path, body=b"a")
    storage.failure = OSError("gone")
    assert wire.append(path, b"b").refusal == (503, "unavailable")
    assert wire.append(path, b"b").refusal == (503, "unavailable")
    assert wire.get(path).body == b"a"
    assert (wire.get("/readyz").status, wire.get("/healthz").status) == (503, 200)
