"""Chaos: connections between a producer, a server and ten followers break, stall and double at random, and the server
is killed now and then. Every follower must end with exactly what was appended, in order.

All goes through the client as users have it. The faults come from a seed; when they strike depends on the machine.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from everbrook import AsyncClient
from soak.followers import RETRY, STREAM, TIMEOUT_SECS, Follower, fork, ten_followers
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import HOST, Server
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import (
    AnswerLost,
    CutAfter,
    CutLater,
    Delayed,
    Fault,
    NeverSent,
    Reply,
    Sound,
    Stalled,
    Trickled,
    Twice,
)
from tests.kit.faults.proxy import Proxy

PATIENCE_SECS = 60.0
SOUND_SHARE = 0.5
LIVE_SOUND_SHARE = 0.1
SETTINGS = {"DS_SERVER__LONG_POLL_TIMEOUT_SECS": "1", "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "5"}


@dataclass
class Outlasted:
    """What a run came to."""

    messages: int = 0
    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    kills: int = 0

    def __str__(self) -> str:
        """Say it in one line."""
        kinds = ", ".join(f"{name} {count:,}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.messages:,} messages to ten followers exactly once and in order, over {self.requests:,} requests, "
            f"{sum(self.faults.values()):,} faults ({kinds}) and {self.kills} kills"
        )


class Chance:
    """Chooses what becomes of each request."""

    def __init__(self, random: Random, faults: Counter[str]) -> None:
        self._random, self._faults = random, faults

    def __call__(self, request: Request) -> Fault:
        """Choose. Answers to live reads go on for long, so there the cuts come in their midst."""
        live = "live=" in request.target
        if self._random.random() < (LIVE_SOUND_SHARE if live else SOUND_SHARE):
            return Sound()
        fault = self._live() if live else self._plain()
        self._faults[type(fault).__name__] += 1
        return fault

    def _live(self) -> Fault:
        random = self._random
        rudely = random.random() < 0.5  # noqa: PLR2004
        return random.choice(
            (
                CutAfter(random.randrange(3_000), rudely=rudely),
                CutAfter(random.randrange(3_000), rudely=rudely),
                CutLater(random.random(), rudely=rudely),
                CutLater(random.random(), rudely=rudely),
                NeverSent(rudely=rudely),
                Trickled(random.randrange(1, 50)),
                Delayed(random.random() / 5, CutLater(random.random())),
                Reply(random.choice((500, 502, 503, 429))),
            )
        )

    def _plain(self) -> Fault:
        random = self._random
        rudely = random.random() < 0.5  # noqa: PLR2004
        return random.choice(
            (
                NeverSent(rudely=rudely),
                AnswerLost(rudely=rudely),
                AnswerLost(rudely=rudely),
                CutAfter(random.randrange(3_000), rudely=rudely),
                Reply(random.choice((500, 502, 503, 429))),
                Delayed(random.random() / 5),
                Delayed(random.random() / 5, AnswerLost()),
                Stalled(random.random() / 3, asked=True),
                Twice(),
                Trickled(1_000),
            )
        )


def soak_chaos(
    mode: str, folder: Path, *, secs: float, seed: int, kills: int = 0, least_messages: int = 0
) -> Outlasted:
    """Produce for so many seconds through broken connections, and hold every follower against what was produced.

    A slow machine takes longer, until it has produced `least_messages`.
    """
    random = Random(seed)  # noqa: S311 - it must replay
    outlasted = Outlasted(kills=kills)
    with (
        Server(mode, folder, settings=SETTINGS) as server,
        Proxy(server.port, Chance(fork(random), outlasted.faults)) as proxy,
        cutting(proxy, fork(random)),
        killing(server, kills, secs),
    ):
        outlasted.messages = asyncio.run(
            _run(f"http://{HOST}:{server.port}", proxy.origin, secs, random, least_messages)
        )
        outlasted.requests = len(proxy.requests)
    return outlasted


async def _run(sound_url: str, shaky_url: str, secs: float, random: Random, least: int) -> int:
    followers = ten_followers(random)
    async with AsyncClient(sound_url, retry=RETRY) as client:
        await client.stream(STREAM).create()
        async with _following(followers, shaky_url):
            sent = await _produce(shaky_url, secs, fork(random), least)
        stored = [message["n"] async for message in client.stream(STREAM).read()]
    require_same("the stream", stored, sent)
    for follower in followers:
        require_same(follower.name, follower.got, sent)
    return sent


@asynccontextmanager
async def _following(followers: list[Follower], url: str) -> AsyncIterator[None]:
    """Let everybody follow. In the end each has so much time to see the end of the stream."""
    tasks = {asyncio.create_task(follower.run(url)): follower for follower in followers}
    try:
        yield
        _, late = await asyncio.wait(tasks, timeout=PATIENCE_SECS)
        if late:
            names = ", ".join(f"{tasks[task].name} at {len(tasks[task].got):,}" for task in late)
            raise PromiseBroken(f"the stream has ended, and {len(late)} followers still wait: {names}")
        for task in tasks:
            task.result()
    finally:
        for task, follower in tasks.items():
            follower.stop()
            task.cancel()


async def _produce(url: str, secs: float, random: Random, least: int) -> int:
    """Append in bursts, wait now and then for all to arrive, and end the stream. Gives how many messages it has."""
    sent = 0
    deadline = time.monotonic() + secs
    async with AsyncClient(url, retry=RETRY, timeout_secs=TIMEOUT_SECS) as client:
        producer = client.stream(STREAM).producer(max_batch_items=random.randrange(5, 50))
        while sent < least or time.monotonic() < deadline:
            for _ in range(random.randrange(1, 60)):
                await producer.append({"n": sent, "room": "x" * random.randrange(200)})
                sent += 1
            if random.random() < 0.3:  # noqa: PLR2004 - what is appended faster than it arrives would take its time in the end
                await producer.flush()
            await asyncio.sleep(random.random() / 20)
        await producer.close()
    return sent


def require_same(who: str, got: list[int], sent: int) -> None:
    """See that somebody has every number once, in order."""
    if got == list(range(sent)):
        return
    wrong = next((place for place, number in enumerate(got) if number != place), len(got))
    shown = got[wrong : wrong + 3]
    raise PromiseBroken(f"{who} has {len(got):,} messages of {sent:,}, and behind message {wrong - 1} came {shown}")


@contextmanager
def cutting(proxy: Proxy, random: Random) -> Iterator[None]:
    """Break all connections at once every second or so."""
    with _repeating(proxy.cut_all, lambda: random.uniform(0.5, 3.0)):
        yield


@contextmanager
def killing(server: Server, kills: int, secs: float) -> Iterator[None]:
    """Kill the server so many times in so many seconds, and start it again."""
    left = [kills]

    def kill() -> None:
        if left[0]:
            left[0] -= 1
            server.kill()
            say(f"killed the server; it was up again in {server.start():.2f} s")

    with _repeating(kill, lambda: secs / (kills + 1)):
        yield


@contextmanager
def _repeating(action: Callable[[], None], pause_secs: Callable[[], float]) -> Iterator[None]:
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(pause_secs()):
            action()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
