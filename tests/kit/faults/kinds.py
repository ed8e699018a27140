"""What can go wrong between a client and a server. Each fault is played for one request, in place of passing it on."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.kit.faults.exchange import Exchange

FOREVER_SECS = 3600.0


class Fault(Protocol):
    """Handles a request in the proxy's place."""

    async def play(self, exchange: Exchange) -> None:
        """Handle it."""


@dataclass(frozen=True)
class Sound:
    """Nothing goes wrong."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.pass_on(await exchange.ask())


@dataclass(frozen=True)
class NeverSent:
    """The connection breaks before the server has seen the request."""

    rudely: bool = False

    async def play(self, exchange: Exchange) -> None:
        exchange.cut(rudely=self.rudely)


@dataclass(frozen=True)
class AnswerLost:
    """The server does what it was asked, and the connection breaks before a byte of its answer is through."""

    rudely: bool = False

    async def play(self, exchange: Exchange) -> None:
        await (await exchange.ask()).body()
        exchange.cut(rudely=self.rudely)


@dataclass(frozen=True)
class CutAfter:
    """The connection breaks after so many bytes of the body, which need not be the end of anything."""

    body_bytes: int
    rudely: bool = False

    async def play(self, exchange: Exchange) -> None:
        answer = await exchange.ask(identity=True)
        await exchange.begin(answer)
        left = self.body_bytes
        async for piece in answer.pieces():
            await exchange.give(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
        exchange.cut(rudely=self.rudely)


@dataclass(frozen=True)
class CutLater:
    """Everything is passed on, and after so long the connection breaks, whatever was on its way."""

    secs: float
    rudely: bool = False

    async def play(self, exchange: Exchange) -> None:
        try:
            async with asyncio.timeout(self.secs):
                await exchange.pass_on(await exchange.ask())
        except TimeoutError:
            exchange.cut(rudely=self.rudely)


@dataclass(frozen=True)
class Reply:
    """Something before the server answers in its place, and the server never hears of it."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    async def play(self, exchange: Exchange) -> None:
        await exchange.reply(self.status, dict(self.headers), self.body)


@dataclass(frozen=True)
class Stalled:
    """Not a byte comes, for so long; then the connection ends. With `asked` the server has done what it was to do."""

    secs: float = FOREVER_SECS
    asked: bool = False

    async def play(self, exchange: Exchange) -> None:
        if self.asked:
            await exchange.ask()
        await asyncio.sleep(self.secs)
        exchange.cut()


@dataclass(frozen=True)
class StalledAfter:
    """The head and so many bytes of the body come, and then nothing, on a connection that stays up."""

    body_bytes: int

    async def play(self, exchange: Exchange) -> None:
        answer = await exchange.ask(identity=True)
        await exchange.begin(answer)
        left = self.body_bytes
        async for piece in answer.pieces():
            await exchange.give(piece[:left])
            left = max(0, left - len(piece))
        await asyncio.sleep(FOREVER_SECS)


@dataclass(frozen=True)
class Delayed:
    """The request arrives late; then it is passed on, or another fault is played."""

    secs: float
    then: Fault = field(default_factory=Sound)

    async def play(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.secs)
        await self.then.play(exchange)


@dataclass(frozen=True)
class Twice:
    """The server gets the request two times, as from a proxy that repeats it, and the client gets the second answer."""

    async def play(self, exchange: Exchange) -> None:
        await (await exchange.ask()).body()
        await exchange.pass_on(await exchange.ask())


@dataclass(frozen=True)
class Trickled:
    """The body comes in small pieces with pauses."""

    piece_bytes: int
    pause_secs: float = 0.001

    async def play(self, exchange: Exchange) -> None:
        answer = await exchange.ask()
        await exchange.begin(answer)
        async for piece in answer.pieces():
            for start in range(0, len(piece), self.piece_bytes):
                await exchange.give(piece[start : start + self.piece_bytes])
                await asyncio.sleep(self.pause_secs)
        await exchange.end()


@dataclass(frozen=True)
class Buffered:
    """The head is passed on, the body only when it is whole: what proxies make of an event stream."""

    async def play(self, exchange: Exchange) -> None:
        answer = await exchange.ask()
        await exchange.begin(answer)
        await exchange.give(await answer.body())
        await exchange.end()


@dataclass(frozen=True)
class Commented:
    """The head is passed on, and then nothing but comments come, on a connection that stays up."""

    pause_secs: float = 0.05

    async def play(self, exchange: Exchange) -> None:
        await exchange.begin(await exchange.ask(identity=True))
        while True:
            await exchange.give(b": still here\n\n")
            await asyncio.sleep(self.pause_secs)


@dataclass(frozen=True)
class Edited:
    """The answer is whole and well framed, and says something else than the server said."""

    body: Callable[[bytes], bytes] = bytes
    headers: Mapping[str, str | None] = field(default_factory=dict)
    status: int | None = None

    async def play(self, exchange: Exchange) -> None:
        answer = await exchange.ask(identity=True)
        changed = {name.lower(): value for name, value in self.headers.items()}
        merged = {name.lower(): value for name, value in answer.unframed().items()} | changed
        headers = {name: value for name, value in merged.items() if value is not None}
        await exchange.reply(self.status or answer.status, headers, self.body(await answer.body()))


@dataclass(frozen=True)
class Preceded:
    """Something stands in the body before what the server sent, such as an event that nobody knows."""

    prefix: bytes

    async def play(self, exchange: Exchange) -> None:
        answer = await exchange.ask(identity=True)
        await exchange.begin(answer)
        await exchange.give(self.prefix)
        async for piece in answer.pieces():
            await exchange.give(piece)
        await exchange.end()
