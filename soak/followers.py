"""Followers of a stream behind broken connections: on the event loop and in threads, in every mode.

One that is restless leaves the loop now and then, and comes back to the offset that it knows.
"""

import asyncio
from random import Random
from typing import Any, Literal, Protocol

from everbrook import AsyncClient, Client, Reader
from everbrook.client.retry import Retry

STREAM = "chaos"
RETRY = Retry(max_attempts=100_000, first_delay_secs=0.01, max_delay_secs=0.2)
TIMEOUT_SECS = 2.0
RESTLESS_SHARE = 0.02

Mode = Literal["auto", "sse", "long-poll"]
MODES: tuple[Mode, ...] = ("sse", "long-poll", "auto")


class Follower(Protocol):
    """Follows the stream to its end; `got` is what it was given so far."""

    name: str
    got: list[int]

    async def run(self, url: str) -> None:
        """Follow."""

    def stop(self) -> None:
        """Follow no more, whatever is still to come."""


class AsyncFollower:
    """Follows on the event loop."""

    def __init__(self, mode: Mode, random: Random, *, restless: bool = False) -> None:
        self.name = f"async {mode}{' restless' if restless else ''}"
        self.got: list[int] = []
        self._mode: Mode = mode
        self._random, self._restless = random, restless

    async def run(self, url: str) -> None:
        """Follow."""
        async with AsyncClient(url, retry=RETRY, timeout_secs=TIMEOUT_SECS) as client:
            stream, offset, closed = client.stream(STREAM), "-1", False
            while not closed:
                reader = stream.follow(offset, mode=self._mode)
                async for message in reader:
                    self.got.append(message["n"])
                    if self._restless and self._random.random() < RESTLESS_SHARE:
                        break
                offset, closed = reader.offset, reader.closed

    def stop(self) -> None:
        """Do nothing: a task is cancelled."""


class SyncFollower:
    """Follows in a thread of its own."""

    def __init__(self, mode: Mode, random: Random, *, restless: bool = False) -> None:
        self.name = f"sync {mode}{' restless' if restless else ''}"
        self.got: list[int] = []
        self._mode: Mode = mode
        self._random, self._restless = random, restless
        self._stopped = False
        self._reader: Reader[Any] | None = None

    def stop(self) -> None:
        """Follow no more."""
        self._stopped = True
        if self._reader is not None:
            self._reader.close()

    async def run(self, url: str) -> None:
        """Follow, while the loop does other things."""
        await asyncio.get_running_loop().run_in_executor(None, self._follow, url)

    def _follow(self, url: str) -> None:
        with Client(url, retry=RETRY, timeout_secs=TIMEOUT_SECS) as client:
            stream, offset, closed = client.stream(STREAM), "-1", False
            while not (closed or self._stopped):
                self._reader = reader = stream.follow(offset, mode=self._mode)
                for message in reader:
                    self.got.append(message["n"])
                    if self._restless and self._random.random() < RESTLESS_SHARE:
                        break
                offset, closed = reader.offset, reader.closed


def ten_followers(random: Random) -> list[Follower]:
    """Give followers of both sides in every mode, two of each side restless."""
    made: list[Follower] = []
    for kind in (AsyncFollower, SyncFollower):
        made += [kind(mode, fork(random)) for mode in MODES]
        made += [kind(mode, fork(random), restless=True) for mode in random.sample(MODES, 2)]
    return made


def fork(random: Random) -> Random:
    """Give somebody a source of chance of their own."""
    return Random(random.getrandbits(64))  # noqa: S311 - it must replay
