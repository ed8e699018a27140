"""Serving: from settings to a running server, until it is told to stop."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal

from uvloop import new_event_loop

from everbrook.protocol.errors import ProtocolError
from everbrook.server.application import Application
from everbrook.server.assembly import assemble, open_storage
from everbrook.server.http1.listener import Listener
from everbrook.settings import Settings

logger = logging.getLogger(__name__)

# Files that are no connections: the listening sockets, the storage, the log.
SPARE_FILES = 100


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings))


async def serve(settings: Settings) -> None:
    """Serve on the running loop until a signal comes."""
    # Until there are keys to rotate the signal means nothing; as it is found, it would end the process.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    raise_open_files(settings.limits.max_connections)
    storage = open_storage(settings)
    application = assemble(settings, storage)
    await application.begin()
    listener = Listener(application)
    addresses = await _listen(listener, settings)
    # What is loaded by now stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    signals = StopSignals()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, rotate_keys, application)
    tell(*banner(addresses, settings, storage.promise))
    await signals.first.wait()
    tell("everbrook is stopping; a second signal ends it at once")
    application.stop()
    stopping = asyncio.ensure_future(listener.stop(settings.server.shutdown_grace_secs))
    hurry = asyncio.ensure_future(signals.second.wait())
    await asyncio.wait((stopping, hurry), return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    stopping.cancel()
    await application.close()


async def _listen(listener: Listener, settings: Settings) -> list[tuple[str, int]]:
    host, port = settings.server.host, settings.server.port
    try:
        return await listener.listen(host, port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise OSError(f"cannot listen on {_bracketed(host)}:{port}: {reason}") from error


def raise_open_files(connections: int) -> None:
    """Let the process open as many files as it may have connections, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < connections:
            logger.warning("the system allows %d open files: too few for %d connections", allowed, connections)


def rotate_keys(application: Application) -> None:
    """Sign webhooks with a new key, and say so once it is durable."""
    engine = application.engine
    try:
        kid = application.control.rotate_keys()
    except ProtocolError as error:
        logger.error("the signing key was not rotated: %s", error)  # noqa: TRY400 - it says all there is to say
        return

    def settle(failure: ProtocolError | None) -> None:
        if failure:
            logger.error("the signing key was not rotated: %s", failure)
        else:
            tell(f"everbrook signs webhooks with {kid} from now on")

    engine.when_durable(engine.last_change, settle)


def tell(*lines: str) -> None:
    """Say something to the person who started the server, if there still is one."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", flush=True)  # noqa: T201 - it is for a person, not for a log


def banner(addresses: list[tuple[str, int]], settings: Settings, promise: str) -> list[str]:
    """Say where the server listens, which storage it has, and what that promises."""
    where = " and ".join(f"http://{_bracketed(host)}:{port}" for host, port in addresses)
    return [f"everbrook listens on {where}", f"storage {settings.storage.mode.value}: {promise}"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class StopSignals:
    """SIGINT and SIGTERM: the first asks for a proper end, the second for any."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        if self.first.is_set():
            self.second.set()
        self.first.set()
