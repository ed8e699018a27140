"""Fixtures: servers with real sockets, and connections to them. A conftest imports those that its tests use."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from everbrook.engine import Clock
from everbrook.server.asgi import AsgiApplication
from everbrook.server.assembly import open_storage
from everbrook.server.tuning import DEFAULT_TUNING, ServerTuning
from everbrook.storage import Storage
from tests.kit.asgi_mount import Mounted
from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Wire

Start = Callable[..., RunningServer]
StartEither = Callable[..., RunningServer | Mounted]
Connect = Callable[..., Wire]

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """The server that tests share which need no settings of their own."""
    with RunningServer(configured()) as running:
        yield running


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers with settings, a tuning or a clock of their own: `start(limits__max_append_bytes=10)`."""
    with ExitStack() as stack:

        def begin(
            storage: Storage | None = None,
            tuning: ServerTuning = DEFAULT_TUNING,
            clock: Clock | None = None,
            **values: object,
        ) -> RunningServer:
            return stack.enter_context(RunningServer(configured(**values), storage, tuning, clock))

        yield begin


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    """A file of API keys, for servers that start with it or look at it again."""
    return Keyring(tmp_path)


@pytest.fixture(params=["http1", "asgi"])
def start_either(request: pytest.FixtureRequest, start: Start) -> Iterator[StartEither]:
    """Start servers as `start` does, once with each transport."""
    with ExitStack() as stack:

        def begin(
            storage: Storage | None = None, tuning: ServerTuning = DEFAULT_TUNING, **values: object
        ) -> RunningServer | Mounted:
            if request.param == "http1":
                return start(storage, tuning, **values)
            settings = configured(**values)
            opened = storage or open_storage(settings)
            streams = AsgiApplication(settings, lambda _settings: opened, tuning)
            return stack.enter_context(Mounted(streams, streams, opened))

        yield begin


@pytest.fixture
def connect(server: RunningServer) -> Iterator[Connect]:
    """Open connections, to the shared server unless another one is given."""
    with ExitStack() as stack:

        def open_wire(other: RunningServer | Mounted | None = None, receive_buffer_bytes: int | None = None) -> Wire:
            return stack.enter_context((other or server).connect(receive_buffer_bytes))

        yield open_wire


@pytest.fixture
def wire(connect: Connect) -> Wire:
    """One connection to the shared server."""
    return connect()


@pytest.fixture
def path() -> str:
    """The path of a stream that no other test uses."""
    return f"/v1/stream/test-{next(_numbers)}"
