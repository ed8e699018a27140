"""Servers with real sockets, and connections to them."""

import logging
from collections.abc import Iterator

import pytest

from everbrook.server.asgi import create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import RunningServer, configured
from tests.kit.servers import connect, keys, path, server, start, start_either, wire
from tests.kit.subscriber import Api, Hooks

__all__ = ["connect", "keys", "path", "server", "start", "start_either", "wire"]


@pytest.fixture(autouse=True)
def _no_faults(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client does, it is answered or sent away: it is no fault of ours, and not worth a line in the log."""
    yield
    if "faults" in request.fixturenames:
        return
    ours = [record for record in caplog.get_records("call") if record.name.startswith(("everbrook", "asyncio"))]
    assert not [record.getMessage() for record in ours if record.levelno >= logging.ERROR]


@pytest.fixture(scope="module", params=["http1", "asgi"])
def subscribed(request: pytest.FixtureRequest) -> Iterator[RunningServer | Mounted]:
    """A server of each transport that may send webhooks to this machine, shared by the tests of a module."""
    settings = configured(webhooks__allow_loopback_http=True, server__long_poll_timeout_secs=0.5)
    if request.param == "http1":
        with RunningServer(settings) as running:
            yield running
    else:
        streams = create_app(settings)
        with Mounted(streams, streams) as mounted:
            yield mounted


@pytest.fixture
def api(subscribed: RunningServer | Mounted) -> Iterator[Api]:
    """Requests about subscriptions, over one connection."""
    with subscribed.connect() as wire:
        yield Api(wire)


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    """A receiver of webhooks."""
    with Hooks() as receiver:
        yield receiver
