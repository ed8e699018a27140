"""What every test of a recipe gets."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The one event loop that the client is for."""
    return "asyncio"
