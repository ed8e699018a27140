"""Quotas of streams that have forks: the same in every storage mode, and after a start as before it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.server.assembly import open_storage
from everbrook.settings import StorageMode
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Wire

SOURCE = "/ds/acme/source"
FORKS = [f"/ds/acme/fork-{number}" for number in range(5)]

Serve = Callable[[], RunningServer]


@pytest.fixture(params=StorageMode, ids=lambda mode: mode.value)
def mode(request: pytest.FixtureRequest) -> StorageMode:
    """Every storage mode."""
    found: StorageMode = request.param
    return found


@pytest.fixture
def serve(mode: StorageMode, tmp_path: Path) -> Serve:
    """Start a server, again and again on the same store where there is one, whose buckets hold a thousand bytes."""
    settings = configured(
        storage__mode=mode, storage__data_dir=tmp_path, limits__max_bucket_bytes=1000, limits__max_total_bytes=1000
    )
    return lambda: RunningServer(settings, open_storage(settings))


def held(wire: Wire) -> object:
    return json.loads(wire.get("/ds/acme").body)["bytes"]


def fork_and_cut(wire: Wire) -> list[int]:
    """Append, fork and cut, one after the other. Gives how the appends were answered."""
    assert wire.request("PUT", "/ds/acme").status == 201
    wire.create(SOURCE)
    statuses = []
    for fork in FORKS:
        answer = wire.append(SOURCE, b"a" * 300)
        statuses.append(answer.status)
        if answer.status == 204:
            assert wire.request("PUT", fork, stream_forked_from=SOURCE).status == 201
            assert wire.request("PUT", f"{SOURCE}/snapshot/{answer.next_offset}", b"").status == 204
    return statuses


def test_what_forks_need_is_within_the_quota(serve: Serve, mode: StorageMode) -> None:
    with serve() as server, server.connect() as wire:
        assert fork_and_cut(wire) == [204, 204, 204, 413, 413]
        assert held(wire) == 900
    if mode.durable:
        with serve() as server, server.connect() as wire:
            assert held(wire) == 900
            assert wire.append(SOURCE, b"a" * 300).status == 413


def test_the_end_of_forks_makes_room(serve: Serve, mode: StorageMode) -> None:
    with serve() as server, server.connect() as wire:
        fork_and_cut(wire)
        assert [wire.request("DELETE", fork).status for fork in FORKS[:2]] == [204, 204]
        assert held(wire) == 300
    if mode.durable:
        with serve() as server, server.connect() as wire:
            assert held(wire) == 300
            assert wire.request("DELETE", FORKS[2]).status == 204
            assert held(wire) == 0
            assert wire.append(SOURCE, b"a" * 1000).status == 204
