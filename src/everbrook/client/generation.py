"""Generations: answers of models, generated in the background, each recorded in a stream of its own.

The rule: a stream has one generation. A repeated request does not start another one.
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
"""The event loop holds tasks weakly: without this set, a running task could be collected."""


class GenerationAbandoned(Exception):
    """A generation wrote no message for too long and did not end, so its process seems to be gone."""


async def generate(
    events: AsyncSource[Any], stream: AsyncStream[Any], recording: Recording, *, ttl_secs: int | None = None
) -> bool:
    """Start to record events in the background. Returns False if the stream exists: another request has started it."""
    try:
        await stream.create(ttl_secs=ttl_secs, exist_ok=False)
    except StreamExists:
        await _dismiss(events)
        return False
    # If a response was lost, two requests may both take themselves for the creator: the claim lets only one write.
    ours = msgspec.structs.replace(recording, create=False, claim=True)
    task = asyncio.create_task(_run(events, stream, ours), name=f"generation of {stream.name}")
    _running.add(task)
    task.add_done_callback(_running.discard)
    return True


async def drain(timeout_secs: float | None = None) -> None:
    """Wait for the generations of this process, and cancel those that still run after the timeout.

    Call it when an application shuts down: a cancelled generation closes its stream, so that its readers stop waiting.
    """
    if not _running:
        return
    _, late = await asyncio.wait(_running, timeout=timeout_secs)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)


async def _run(events: AsyncSource[Any], stream: AsyncStream[Any], recording: Recording) -> None:
    """Record all events. No caller waits for this task, so an error goes to the exception handler of the loop."""
    try:
        await record(events, stream, recording)
    except (StreamClosed, StaleEpoch):
        # Another program closed the stream to stop the generation, or it is the one that writes the stream.
        return
    except Exception as error:  # noqa: BLE001 - it is recorded, and reported to the loop
        where = "could not be recorded" if isinstance(error, ProtocolError | ClientError) else "failed"
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the generation of {stream.url} {where}", "exception": error, "task": asyncio.current_task()}
        )


async def _dismiss(events: object) -> None:
    """Close a source that is not used. Python warns about a coroutine that is never awaited."""
    close = getattr(events, "aclose", None) or getattr(events, "close", None)
    if close is not None and asyncio.iscoroutine(given := close()):
        await given
