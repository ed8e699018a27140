"""/healthz and /readyz."""

import pytest

from tests.kit.server_thread import GatedStorage
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire


@pytest.mark.parametrize("probe", ["/healthz", "/readyz"])
def test_a_running_server_is_well_and_ready(wire: Wire, probe: str) -> None:
    answer = wire.get(probe)
    assert (answer.status, answer.body, answer.headers["cache-control"]) == (200, b"ok", "no-store")


def test_a_stopping_server_is_well_but_not_ready(start: Start, connect: Connect) -> None:
    server = start()
    wire = connect(server)
    server.call(server.application.stop)
    assert wire.get("/healthz").status == 200
    assert wire.get("/readyz").refusal == (503, "unavailable")


@pytest.mark.usefixtures("faults")
def test_a_server_whose_storage_failed_is_not_ready(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.failure = OSError("no space left")
    storage.gate.set()
    wire = connect(start(storage))
    assert wire.request("PUT", path).refusal == (503, "unavailable")
    assert wire.get("/readyz").refusal == (503, "unavailable")
    assert wire.get("/healthz").status == 200
