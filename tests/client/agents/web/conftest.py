"""What every test of a response gets: an application that is served, with streams inside or elsewhere."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.client.agents.web.application import Model, serving_application


@pytest.fixture(scope="module")
def shared_model() -> Model:
    return Model()


@pytest.fixture
def model(shared_model: Model) -> Model:
    """The model of the application, as it is unless a test wants it otherwise."""
    shared_model.reset()
    return shared_model


@pytest.fixture(scope="module", params=["mounted", "remote"])
def origin(request: pytest.FixtureRequest, shared_model: Model) -> Iterator[str]:
    """The URL of the application."""
    streams = request.getfixturevalue("server") if request.param == "remote" else None
    with serving_application(shared_model, streams) as url:
        yield url


@pytest.fixture
def chat(origin: str, model: Model) -> str:
    """The URL of an answer that nobody has asked for yet."""
    return f"{origin}/chat/{uuid4()}"


@pytest.fixture
def ui(origin: str, model: Model) -> str:
    """The URL of one for `useChat`."""
    return f"{origin}/ui/{uuid4()}"
