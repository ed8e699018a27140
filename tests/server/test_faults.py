"""A fault in one answer, reader or follower stops nothing else: the other answers come, and writing goes on."""

from collections.abc import Callable

import pytest

from everbrook.engine import CommitTuning, EngineTuning
from everbrook.protocol.errors import StreamDamaged
from everbrook.server.tuning import ServerTuning
from tests.server.conftest import Connect, Start, StartEither
from tests.server.observe.scrape import value
from tests.server.running import GatedStorage, eventually


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
    storage.damaged = server.call(lambda: server.engine.find(bad.encode(), 0).committed.identity.incarnation)
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
