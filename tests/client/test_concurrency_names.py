"""The two hand-written modules offer the same, or what is generated would not fit one of them."""

import inspect
import threading
from types import ModuleType

import pytest

from everbrook.client._async import concurrency as async_side
from everbrook.client._sync import concurrency as sync_side


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
    task = sync_side.spawn(lambda: ended.append(done.wait(5)), name="waiting")
    task.cancel()
    done.set()
    task.join()
    assert ended == [True]
