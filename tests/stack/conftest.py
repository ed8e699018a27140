"""What the tests of the stack share: a Postgres and a server for those that need only these."""

from collections.abc import Iterator

import pytest

from tests.kit.postgres import database, postgres
from tests.kit.server_process import serving
from tests.stack.bare import bare_environment
from tests.stack.stacks import Stack, gone, up

__all__ = ["database", "postgres", "server", "stack"]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server."""
    with serving(tmp_path_factory.mktemp("server")) as started:
        yield "http://{}:{}".format(*started.address)


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The whole stack, with the Java and the Postgres of the packages: one for all tests, as it starts slowly,
    and none behind them, as it takes time from others. Nothing of it may be left when it has ended.
    """
    folder = tmp_path_factory.mktemp("whole")
    with up(folder / "stack", "--interval", "1", environ=bare_environment(folder / "bin")) as started:
        started.wait()
        yield started
        family = started.family()
    assert gone(family, 5.0)
