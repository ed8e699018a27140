"""Serving: from settings to a running server, until it is told to stop."""

import asyncio
import gc
import logging
import signal
import sys

from everbrook.server.assembly import assemble, open_storage
from everbrook.server.http1.listener import Listener
from everbrook.settings import Settings

if sys.platform == "win32":
    from asyncio import new_event_loop
else:
    from uvloop import new_event_loop

logger = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings))


async def serve(settings: Settings) -> None:
    """Serve on the running loop until a signal comes."""
    storage = open_storage(settings)
    application = assemble(settings, storage)
    listener = Listener(application)
    addresses = await listener.listen(settings.server.host, settings.server.port)
    # What is loaded by now stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    for line in banner(addresses, settings, storage.promise):
        print(line, flush=True)  # noqa: T201 - the banner is for the person who started the server
    await _stop_signal()
    print("everbrook is stopping", flush=True)  # noqa: T201 - likewise
    application.stop()
    await listener.stop(settings.server.shutdown_grace_secs)
    application.engine.close()


def banner(addresses: list[tuple[str, int]], settings: Settings, promise: str) -> list[str]:
    """Say where the server listens, which storage it has, and what that promises."""
    where = " and ".join(f"http://{_bracketed(host)}:{port}" for host, port in addresses)
    return [f"everbrook listens on {where}", f"storage {settings.storage.mode.value}: {promise}"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _stop_signal() -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
