"""The two sides of the client: both have the same names and parts, and each takes what belongs to it."""

import inspect
import threading
from types import ModuleType

import httpx2
import pytest

from everbrook import AsyncClient, Client
from everbrook.client._async import concurrency as async_side, parts as async_parts
from everbrook.client._sync import concurrency as sync_side, parts as sync_parts


async def token() -> str:
    return "secret"


def test_an_asynchronous_token_is_not_for_the_sync_client() -> None:
    with Client("http://127.0.0.1:9", token=token) as client, pytest.raises(TypeError, match="goes with AsyncClient"):  # type: ignore[arg-type]
        client.stream("any").head()


def test_each_client_takes_connections_of_its_own_side() -> None:
    with httpx2.Client() as http, pytest.raises(TypeError, match=r"must be an httpx2\.AsyncClient, got Client"):
        AsyncClient(http=http)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be an httpx2\.Client, got AsyncClient"):
        Client(http=httpx2.AsyncClient())  # type: ignore[arg-type]


def parameters(module: ModuleType, name: str) -> list[str]:
    """What a function, or each public method of a class, is called with."""
    offered = getattr(module, name)
    if not inspect.isclass(offered):
        return list(inspect.signature(offered).parameters)
    methods = [(key, value) for key, value in vars(offered).items() if inspect.isfunction(value) and key[0] != "_"]
    return [f"{key}{[*inspect.signature(value).parameters]}" for key, value in methods]


def test_both_sides_have_the_same_names() -> None:
    assert sorted(async_side.__all__) == sorted(sync_side.__all__)


@pytest.mark.parametrize("name", sorted({*async_side.__all__} - {"Lock"}))
def test_both_sides_are_called_alike(name: str) -> None:
    assert parameters(async_side, name) == parameters(sync_side, name)


def test_a_thread_does_not_keep_the_program_alive() -> None:
    done = threading.Event()
    task = sync_side.spawn(done.wait, 5.0, name="waiting")
    [thread] = [thread for thread in threading.enumerate() if thread.name == "waiting"]
    assert thread.daemon
    done.set()
    task.join()


def test_cancelling_a_thread_leaves_it_alone() -> None:
    ended: list[bool] = []
    done = threading.Event()
    task = sync_side.spawn(lambda: ended.append(done.wait()), name="waiting")
    task.cancel()
    done.set()
    task.join()
    assert ended == [True]


SIDES = [async_parts, sync_parts]


@pytest.mark.parametrize("name, side", [(name, side) for side in SIDES for name in side.__all__])
def test_every_part_is_where_it_is_looked_for(name: str, side: ModuleType) -> None:
    vars(side).pop(name, None)
    assert getattr(side, name).__name__ == name


@pytest.mark.parametrize("side", SIDES)
def test_a_name_that_is_no_part_is_not_found(side: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        side.nothing  # noqa: B018
