"""The normal tenant, in a process of its own: appends, reads of the tail, and a live reader, each at a fixed rate.

It prints a line for each thing it waited for: what, when it began, when it ended. A request is due at a moment, and its
wait counts from then on, so that what piles up behind a stall counts too.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress

import httpx2

RATE = 40
"""How often each thing is done in a second."""
TIMEOUT_SECS = 60.0
REFUSED = "refused"


async def run(origin: str, token: str, secs: float) -> None:
    """Do everything for a while, on connections of its own."""
    headers = {"Authorization": f"Bearer {token}"}
    stream = "/ds/normal/orders"
    async with httpx2.AsyncClient(base_url=origin, headers=headers, timeout=TIMEOUT_SECS) as client:
        (await client.put(stream, headers={"Content-Type": "application/json"})).raise_for_status()

        async def append() -> None:
            body = b'{"at": %.6f}' % time.monotonic()
            answer = await client.post(stream, content=body, headers={"Content-Type": "application/json"})
            answer.raise_for_status()

        async def read() -> None:
            (await client.get(f"{stream}?last=10")).raise_for_status()

        async def head() -> None:
            (await client.head(stream)).raise_for_status()

        follower = asyncio.ensure_future(_follow(client, stream))
        until = time.monotonic() + secs
        await asyncio.gather(*(_at_rate(action.__name__, action, until) for action in (append, read, head)))
        if follower.done():
            follower.result()
        follower.cancel()
        with suppress(asyncio.CancelledError, httpx2.HTTPError):
            await follower


async def _at_rate(name: str, action: Callable[[], Coroutine[None, None, None]], until: float) -> None:
    due = time.monotonic()
    while due < until:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        what = name
        try:
            await action()
        except httpx2.HTTPStatusError:
            what = REFUSED
        _tell(what, due, time.monotonic())
        due += 1 / RATE


async def _follow(client: httpx2.AsyncClient, stream: str) -> None:
    """Wait for each message by SSE: it says itself when it was sent."""
    while True:
        async with client.stream("GET", f"{stream}?offset=now&live=sse") as answer:
            async for line in answer.aiter_lines():
                now = time.monotonic()
                for part in line.split('{"at": ')[1:]:
                    _tell("delivery", float(part.partition("}")[0]), now)


def _tell(name: str, began: float, ended: float) -> None:
    sys.stdout.write(f"{name} {began:.6f} {ended:.6f}\n")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], float(sys.argv[3])))
