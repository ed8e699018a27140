"""The machine's own resolver, for webhooks.

The rule: a name that is never answered holds up nothing but other names, and not even the end of the process. The
machine's lookups block and cannot be broken off, so each has a thread of its own that nobody waits for.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Protocol

Found = list[str] | OSError


class LookUp(Protocol):
    """The part of `socket.getaddrinfo` that is used."""

    def __call__(self, host: str, port: int, *, type: int) -> Sequence[tuple[Any, ...]]:  # noqa: A002 - its name there
        """Resolve a name, or raise OSError."""


class SystemResolver:
    """Looks names up as every program on this machine does, a bounded number at a time."""

    def __init__(self, max_concurrent: int, look_up: LookUp = socket.getaddrinfo) -> None:
        """Run at most `max_concurrent` lookups at a time. `look_up` may block: each runs in a thread."""
        self._look_up = look_up
        self._free = asyncio.Semaphore(max_concurrent)

    async def __call__(self, name: str, port: int) -> list[str]:
        """Give the addresses of a name, or raise OSError."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def take(found: Found) -> None:
            self._free.release()
            if answer.done():
                return  # whoever asked has gone
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def tell(found: Found) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before the lookup
                loop.call_soon_threadsafe(take, found)

        Thread(target=self._answer, args=(name, port, tell), name="webhook-name", daemon=True).start()
        return await answer

    def _answer(self, name: str, port: int, tell: Callable[[Found], None]) -> None:
        try:
            found = self._look_up(name, port, type=socket.SOCK_STREAM)
        except OSError as error:
            tell(error)
        except UnicodeError:
            tell(socket.gaierror(socket.EAI_NONAME, f"{name} is no host name"))
        else:
            tell([str(address[0]) for *_, address in found])
