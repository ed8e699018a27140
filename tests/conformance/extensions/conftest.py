"""The servers under test, and what each test gets of them.

Without options every test runs against Everbrook in each storage mode and on both transports; with `--base-url` it runs
against whatever answers there. A test that asks for `surface` runs once on each of the two.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.conformance.extensions.client import Client
from tests.conformance.extensions.servers import Server, given, require, running
from tests.conformance.extensions.streams import SURFACES, Namespace, Stream, fresh_name
from tests.conformance.targets import TARGETS, Target


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("extensions")
    group.addoption("--base-url", help="the server to test, instead of Everbrook in every storage mode")
    group.addoption("--max-snapshot-bytes", type=int, help="the largest snapshot that the server of --base-url takes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "extension(name): needs what Stream-Extensions calls by this name")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", _targets(metafunc.config), indirect=True, scope="session")
    if "surface" in metafunc.fixturenames:
        metafunc.parametrize("surface", SURFACES, indirect=True)


def _targets(config: pytest.Config) -> list[object]:
    if base_url := config.getoption("base_url", None):
        return [pytest.param(base_url, id="given")]
    return [pytest.param(target, id=target.name) for target in TARGETS]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Target], Server]]:
    """Start Everbrook in a mode when it is first asked for, and keep it until the end of all tests.

    A fixture with parameters is torn down whenever its parameter changes: once for every mode in every file.
    """
    with ExitStack() as stack:

        @cache
        def start(target: Target) -> Server:
            return stack.enter_context(running(target, tmp_path_factory.mktemp(target.name)))

        yield start


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, started: Callable[[Target], Server]) -> Server:
    """One server for all tests of a mode: each test keeps to names of its own."""
    if isinstance(request.param, Target):
        return started(request.param)
    return given(request.param, request.config.getoption("max_snapshot_bytes"))


@pytest.fixture(autouse=True)
def _claimed(request: pytest.FixtureRequest) -> None:
    """Skip what goes beyond 002 where another server does not say that it has it."""
    mark = request.node.get_closest_marker("extension")
    if mark:
        server: Server = request.getfixturevalue("server")
        require(server, mark.args[0])


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.base_url) as connected:
        yield connected


@pytest.fixture
def surface(request: pytest.FixtureRequest, server: Server) -> str:
    """Where streams are: in a bucket, as 002 has them, or below the root of the base protocol, which is ours."""
    name: str = request.param
    if name == "base":
        require(server, "snapshots")
    return name


@pytest.fixture
def namespace(client: Client, surface: str) -> Namespace:
    """A bucket or folder that is this test's own."""
    return Namespace(client, surface, fresh_name()).make()


@pytest.fixture
def stream(namespace: Namespace) -> Stream:
    """A new stream of text."""
    return namespace.fresh("text/plain")


@pytest.fixture
def bucket(client: Client) -> Namespace:
    """A new bucket."""
    return Namespace(client, "bucket", fresh_name()).make()


@pytest.fixture
def missing(client: Client) -> Namespace:
    """A bucket that does not exist."""
    return Namespace(client, "bucket", fresh_name())
