"""Generations: answers that are made in the background, each into a stream of its own, whoever reads it meanwhile.

The rule: one stream, one generation. Whoever asks for it again joins the one that runs, or gets what it left.
"""

import asyncio
from typing import Any

import msgspec

from everbrook.client._async.recorder import Recording, record
from everbrook.client._async.sources import AsyncSource
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import ClientError
from everbrook.protocol.errors import ProtocolError, StaleEpoch, StreamClosed, StreamExists

_running: set[asyncio.Task[None]] = set()
"""The loop holds tasks weakly: without this, one that nobody waits for could vanish halfway."""


class GenerationAbandoned(Exception):
    """Nothing comes any more, and nothing says that it has ended: the process that made the answer is gone."""


async def generate(
    events: AsyncSource[Any], stream: AsyncStream[Any], recording: Recording, *, ttl_secs: int | None = None
) -> bool:
    """Begin to record events in the background, and say so; or say that somebody has begun already."""
    try:
        await stream.create(ttl_secs=ttl_secs, exist_ok=False)
    except StreamExists:
        await _dismiss(events)
        return False
    # Two may believe that they have created it, if the answer to one of them was lost: the claim lets only one write.
    ours = msgspec.structs.replace(recording, create=False, claim=True)
    task = asyncio.create_task(_run(events, stream, ours), name=f"generation of {stream.name}")
    _running.add(task)
    task.add_done_callback(_running.discard)
    return True


async def drain(timeout_secs: float | None = None) -> None:
    """Wait for every generation that runs in this process; after the timeout, stop those that are left.

    For the end of an application: one that is stopped says so in its stream, so that nobody waits for the rest.
    """
    if not _running:
        return
    _, late = await asyncio.wait(_running, timeout=timeout_secs)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)


async def _run(events: AsyncSource[Any], stream: AsyncStream[Any], recording: Recording) -> None:
    """Record to the end. There is nobody to raise an error to, so the loop is told, which logs it."""
    try:
        await record(events, stream, recording)
    except (StreamClosed, StaleEpoch):
        # Somebody closed the stream, which is how a generation is stopped from elsewhere, or writes it instead.
        return
    except Exception as error:  # noqa: BLE001 - it is recorded, and told to the loop
        where = "could not be recorded" if isinstance(error, ProtocolError | ClientError) else "failed"
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the generation of {stream.url} {where}", "exception": error, "task": asyncio.current_task()}
        )


async def _dismiss(events: object) -> None:
    """Let go of events that are not needed. A coroutine that is never awaited would complain."""
    close = getattr(events, "aclose", None) or getattr(events, "close", None)
    if close is not None and asyncio.iscoroutine(given := close()):
        await given
