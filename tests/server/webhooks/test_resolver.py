"""The machine's own resolver: its answers come, and lookups that hang are left behind."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from everbrook.server.webhooks.network import SystemResolver
from tests.kit.server_thread import PATIENCE_SECS
from tests.server.webhooks.receivers import PUBLIC, run

Found = tuple[Any, ...]
FOUND: list[Found] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, 443))]


class Stuck:
    """A system whose lookups answer when they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, host: str, port: int, *, type: int) -> list[Found]:  # noqa: ARG002 - as the system's
        assert self.let_go.wait(PATIENCE_SECS), "nobody let it go"
        return FOUND

    @property
    def under_way(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "webhook-name"]


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    system = Stuck()
    yield system
    system.let_go.set()
    for thread in system.under_way:
        thread.join()


def test_a_name_that_the_system_knows_gives_its_addresses() -> None:
    async def main() -> list[str]:
        return await SystemResolver(1)("localhost", 80)

    found = run(main())
    assert found
    assert all(ip_address(address).is_loopback for address in found)


def test_a_name_that_the_system_does_not_know_is_an_os_error() -> None:
    def unknown(host: str, port: int, *, type: int) -> list[Found]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main() -> None:
        await SystemResolver(1, unknown)("name.example", 80)

    with pytest.raises(socket.gaierror, match="not known"):
        run(main())


def test_a_name_that_can_be_none_is_an_os_error() -> None:
    async def main() -> None:
        await SystemResolver(1)("a" * 64 + ".example", 80)

    with pytest.raises(OSError, match="is not a host name"):
        run(main())


@pytest.mark.timing
def test_the_end_of_the_loop_does_not_wait_for_a_lookup_that_hangs(stuck: Stuck) -> None:
    async def main() -> None:
        lookup = asyncio.ensure_future(SystemResolver(1, stuck)("a.example", 443))
        await asyncio.sleep(0)
        lookup.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lookup

    began = time.monotonic()
    run(main())
    assert time.monotonic() - began < 5


def test_no_more_lookups_than_allowed_are_under_way_though_whoever_asked_has_gone(stuck: Stuck) -> None:
    async def main() -> None:
        resolver = SystemResolver(2, stuck)
        lookups = [asyncio.ensure_future(resolver(f"{number}.example", 443)) for number in range(4)]
        await asyncio.sleep(0)
        lookups[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await lookups[0]
        assert [thread.daemon for thread in stuck.under_way] == [True, True]
        faults = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        stuck.let_go.set()
        assert await asyncio.gather(*lookups[1:]) == [[PUBLIC]] * 3
        assert faults == []

    run(main())
