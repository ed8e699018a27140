"""What a server is told by signals.

SIGINT and SIGTERM: the first asks for a proper end, the second for any. SIGUSR2 asks for a restart in place. SIGHUP
asks for certificates, keys and policy to be read anew; if it is the end of the terminal, it asks for the end.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import TypeVar

STANDARD_INPUT = 0

T = TypeVar("T")


class EndWanted(Exception):
    """The server was told to stop while it did something else."""


class Signals:
    """Signals as events. From here on none of these ends the process by itself."""

    def __init__(self, reload: Callable[[], None], rotate_keys: Callable[[], None]) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.restart = asyncio.Event()
        self._reload = reload
        self._had_terminal = _has_terminal()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        loop.add_signal_handler(signal.SIGUSR1, rotate_keys)
        loop.add_signal_handler(signal.SIGUSR2, self.restart.set)

    def _stop(self) -> None:
        if self.first.is_set():
            self.second.set()
        self.first.set()

    def _hang_up(self) -> None:
        if self._had_terminal and not _has_terminal():
            self._stop()
        else:
            self._reload()

    async def wanted(self, failed: asyncio.Event) -> bool:
        """Wait until a restart is wanted (True), or the end, or until the server has failed."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.first, self.restart, failed)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        restart = self.restart.is_set() and not self.first.is_set() and not failed.is_set()
        self.restart.clear()
        return restart

    async def unless_stopped(self, work: Coroutine[object, object, T]) -> T:
        """Do something, or give it up with `EndWanted` when the end is asked for."""
        working, end = asyncio.ensure_future(work), asyncio.ensure_future(self.first.wait())
        await asyncio.wait((working, end), return_when=asyncio.FIRST_COMPLETED)
        if not self.first.is_set():
            end.cancel()
            return working.result()
        working.cancel()
        await asyncio.wait((working,))
        raise EndWanted


def _has_terminal() -> bool:
    """Tell whether standard input is a terminal; one that has gone is none any more."""
    try:
        return os.isatty(STANDARD_INPUT)
    except OSError:
        return False
