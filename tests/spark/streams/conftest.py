"""What a query reads unless a test says otherwise: all streams of the test, from their beginning."""

import pytest


@pytest.fixture
def options(server: str, prefix: str) -> dict[str, str]:
    return {"url": server, "streamPrefix": prefix, "startingOffsets": "earliest"}
