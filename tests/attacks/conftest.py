"""Servers under attack, shared by the attacks of a module."""

import logging
from collections.abc import Iterator

import pytest

from tests.attacks.tenants import Tenants, sharing
from tests.kit.servers import connect, keys, path, server, start

__all__ = ["connect", "keys", "path", "server", "start"]


@pytest.fixture(autouse=True)
def _no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever an attacker sends, it is answered or sent away: it is no fault of ours."""
    yield
    ours = [record for record in caplog.get_records("call") if record.name.startswith(("everbrook", "asyncio"))]
    assert not [record.getMessage() for record in ours if record.levelno >= logging.ERROR]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """A server that Alice and Bob share. The attacker is Alice."""
    with sharing(tmp_path_factory.mktemp("keys")) as shared:
        yield shared
