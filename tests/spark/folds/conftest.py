"""Another server, without the extensions that folds need."""

from collections.abc import Iterator

import pytest

from bench.processes import HOST, ServerProcess, free_port
from bench.reference import command
from everbrook.spark.connection import disconnect


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """The URL of the Node reference server."""
    port = free_port()
    with ServerProcess(command(port), {}, port):
        yield f"http://{HOST}:{port}"
        disconnect()
