"""A running server, from its settings to its stop.

The first SIGINT or SIGTERM starts a graceful stop, the second an immediate one. SIGUSR2 starts a restart in place,
SIGUSR1 makes a new webhook key. SIGHUP reloads certificates, keys and policy; if the terminal was closed, it stops the
server.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from msgspec import Struct
from uvloop import new_event_loop

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError
from everbrook.server.application import Application
from everbrook.server.assembly import assemble, find_store, open_storage
from everbrook.server.auth.policy import policy_warnings
from everbrook.server.garbage import FullCollections
from everbrook.server.http1.listener import Listener
from everbrook.server.limits.descriptors import MIN_CONNECTIONS, allot, descriptor_limit, raise_limit, wanted
from everbrook.server.restart import (
    IGNORED,
    Handover,
    Inherited,
    Reporter,
    RestartFailed,
    delay_signals,
    hand_over,
    inherit,
    prove,
    put_aside,
    take_delayed_signals,
)
from everbrook.server.systemd import READY, STOPPING, Heartbeat, notify, reloading
from everbrook.server.tuning import DEFAULT_TUNING, ListenerTuning
from everbrook.settings import Settings
from everbrook.storage.api import Storage
from everbrook.storage.memory import MemoryStorage

STANDARD_INPUT = 0

T = TypeVar("T")


logger = logging.getLogger(__name__)
# Lines for people on standard output are logged too, for programs that read only the log.
told = logging.getLogger("everbrook.told")
SWITCH_SECS = 0.001
"""The longest time that the loop waits for the interpreter's lock while a commit or checkpoint thread computes."""


class StopRequested(Exception):
    """A signal stopped the server while it prepared a restart."""


class Signals:
    """The signals of the process, as events. Their default actions no longer apply."""

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
        """Wait for a signal, or until the server has failed. Return whether a restart is wanted."""
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
        """Do some work. When a signal stops the server, cancel the work and raise `StopRequested`."""
        working, end = asyncio.ensure_future(work), asyncio.ensure_future(self.first.wait())
        await asyncio.wait((working, end), return_when=asyncio.FIRST_COMPLETED)
        if not self.first.is_set():
            end.cancel()
            return working.result()
        working.cancel()
        await asyncio.wait((working,))
        raise StopRequested


def _has_terminal() -> bool:
    """Tell whether standard input is a terminal that still exists."""
    try:
        return os.isatty(STANDARD_INPUT)
    except OSError:
        return False


class StorageFailed(Exception):
    """The storage takes no more writes, so the server has stopped. Its supervisor should start it again."""


def run(
    settings: Settings,
    command: Sequence[str] | None = None,
    open_storage: Callable[[Settings], Storage] = open_storage,
    assemble: Callable[[Settings, Storage], Application] = assemble,
) -> None:
    """Serve until SIGINT or SIGTERM. `command` is the command line of this server, for a restart in place.

    If the storage is poisoned, the waiting requests are refused and `StorageFailed` is raised.
    """
    sys.setswitchinterval(SWITCH_SECS)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings, command, open_storage, assemble))


async def serve(
    settings: Settings,
    command: Sequence[str] | None = None,
    open_storage: Callable[[Settings], Storage] = open_storage,
    assemble: Callable[[Settings, Storage], Application] = assemble,
) -> None:
    """Serve on the running loop until a signal arrives, or the storage fails."""
    # The default action of these signals would end the process before they have handlers.
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    inherited = inherit(settings.server.host, settings.server.port)
    reporter = Reporter(settings, inherited.attempt)
    try:
        server = await _begin(settings, inherited, open_storage, assemble)
    except BaseException as error:
        reporter.tell("failed", str(error))
        raise
    signals = Signals(partial(reload, server.application), partial(rotate_keys, server.application))
    # Only now are there handlers for the signals that the previous image delayed.
    take_delayed_signals()
    tell(*server.banner)
    heartbeat = Heartbeat(server.application.engine.faults)
    collections = FullCollections(server.application.engine.faults, server.listener.overload.is_idle)
    notify(READY)
    reporter.tell("ready")
    while await signals.wanted(server.failed):
        await _restart(server, command, signals, reporter)
    heartbeat.stop()
    collections.stop()
    try:
        await _stop(server, signals)
    except Exception:
        if not server.failed.is_set():
            raise
        logger.exception("the failed storage could not be closed")
    if server.failed.is_set():
        raise StorageFailed("the storage failed, and the log has the reason: start the server again")


class Server(Struct, frozen=True):
    """A running server."""

    application: Application
    listener: Listener
    failed: asyncio.Event
    """Set when the storage is poisoned. Only a new process can find out what is durable."""
    banner: Sequence[str]
    of_systemd: bool = False


async def _begin(
    settings: Settings,
    inherited: Inherited,
    open_storage: Callable[[Settings], Storage],
    assemble: Callable[[Settings, Storage], Application],
) -> Server:
    # A server without enough descriptors must end before it opens the store.
    max_connections = allot_descriptors(settings, DEFAULT_TUNING.listener)
    storage = open_storage(settings)
    application = assemble(settings, storage)
    asyncio.get_running_loop().set_exception_handler(partial(_unhandled, application.engine.faults))
    failed = asyncio.Event()
    application.engine.on_failure = lambda _failure: failed.set()
    # No request may arrive before the changes of the start are durable.
    await application.begin()
    listener = Listener(application, max_connections)
    addresses = await _listen(listener, settings, inherited.listening)
    for caution in policy_warnings(settings, addresses):
        logger.warning("%s", caution)
    await listener.adopt(inherited.connections)
    lines = banner(addresses, settings, storage.promise)
    return Server(application, listener, failed, lines, inherited.of_systemd)


def _unhandled(faults: Faults, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count an unhandled exception of the event loop. Complaints without an exception are only logged."""
    error = context.get("exception")
    if isinstance(error, Exception):
        faults.run(Callback.OTHER, _raise, error)
    else:
        loop.default_exception_handler(context)


def _raise(error: Exception) -> NoReturn:
    raise error


async def _stop(server: Server, signals: Signals) -> None:
    notify(STOPPING)
    tell("everbrook is stopping; a second signal ends it at once")
    server.application.stop()
    grace_secs = server.application.settings.server.shutdown_grace_secs
    stopping = asyncio.ensure_future(server.listener.stop(grace_secs))
    hurry = asyncio.ensure_future(signals.second.wait())
    await asyncio.wait((stopping, hurry), return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    # After a second signal the graceful stop is cancelled. The application is closed in order in any case.
    stopping.cancel()
    await server.application.close()


async def _restart(server: Server, command: Sequence[str] | None, signals: Signals, reporter: Reporter) -> None:
    """Become the next image, if it would start. Return if it would not, or if a signal stops the server meanwhile."""
    try:
        if await signals.unless_stopped(_proved(server.application, command, reporter)):
            await _hand_over(server, signals, reporter)
    except StopRequested:
        reporter.tell("failed", "a signal stopped the server")


async def _proved(application: Application, command: Sequence[str] | None, reporter: Reporter) -> bool:
    """Tell whether the next image would start. If not, report why; this image continues."""
    reporter.begin()
    try:
        await prove(application.settings, command, application.tuning.restart)
    except RestartFailed as error:
        problem = str(error)
    else:
        return True
    logger.error("no restart: %s", problem)
    reporter.tell("failed", problem)
    return False


async def _hand_over(server: Server, signals: Signals, reporter: Reporter) -> NoReturn:
    """Become the next image. Once the storage is closed, there is no way back."""
    settings = server.application.settings.server
    tell("everbrook restarts in place")
    notify(reloading())
    reporter.tell("leaving")
    listening, connections = await signals.unless_stopped(server.listener.leave(settings.shutdown_grace_secs))
    await server.application.close()
    delay_signals()
    # A signal that arrived before the block is handled in the loop's next turn. Without that turn it would be lost.
    await asyncio.sleep(0)
    if signals.first.is_set():
        put_aside(signal.SIGTERM)
    reporter.tell("starting")
    hand_over(Handover(settings.host, settings.port, listening, connections, reporter.attempt, server.of_systemd))


def check_start(settings: Settings) -> None:
    """Make all parts of a server except the storage and the sockets, which the running image still uses."""

    async def assembled() -> None:
        application = assemble(settings, MemoryStorage())
        await application.begin()
        Listener(application)
        await application.close()

    find_store(settings)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(assembled())


async def _listen(listener: Listener, settings: Settings, inherited: Sequence[socket.socket]) -> list[tuple[str, int]]:
    host, port = settings.server.host, settings.server.port
    try:
        return await listener.listen(host, port, inherited)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise OSError(f"cannot listen on {_bracketed(host)}:{port}: {reason}") from error


def allot_descriptors(settings: Settings, tuning: ListenerTuning) -> int:
    """Raise the limit of file descriptors as far as needed. Return how many connections fit into it."""
    raise_limit(wanted(settings, tuning))
    limit, most = descriptor_limit(), settings.limits.max_connections
    allotted = allot(settings, limit, tuning)
    if not allotted.connections:
        own = allotted.reserve + allotted.blobs
        raise OSError(
            f"the system allows this process {limit} open files, and it needs {own} beside its connections: "
            f"raise `ulimit -n` to {own + MIN_CONNECTIONS} at least"
        )
    if allotted.connections < most:
        logger.warning(
            "the system allows %d open files: %d connections at a time instead of %d (limits.max_connections)",
            limit,
            allotted.connections,
            most,
        )
    return allotted.connections


def rotate_keys(application: Application) -> None:
    """Sign webhooks with a new key, and report it when it is durable."""
    engine = application.engine

    def settle(kid: str, failure: ProtocolError | None) -> None:
        if failure:
            logger.error("the signing key was not rotated: %s", failure)
        else:
            tell(f"everbrook signs webhooks with {kid} from now on")

    try:
        kid = application.control.rotate_keys()
    except ProtocolError as error:
        settle("", error)
    else:
        engine.when_durable(engine.last_change, partial(settle, kid))


def reload(application: Application) -> None:
    """Read certificates, keys and policy again. Files that can't be used change nothing."""
    notify(reloading())
    problems: list[str] = []
    for hook in application.on_reload:
        try:
            hook()
        except Exception as error:  # noqa: BLE001 - a failure of one must not prevent the others
            problems.append(str(error))
    for problem in problems:
        logger.error("a file was not reloaded, and its old content stays valid: %s", problem)
    application.observer.reloaded("; ".join(problems))
    notify(READY)
    but = ", except for the files that the log names" if problems else ""
    tell(f"everbrook has reloaded certificates, keys and policy{but}")


def tell(*lines: str) -> None:
    """Print lines for the person who started the server, and log them."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", flush=True)  # noqa: T201 - it is for a person
    for line in lines:
        told.info("%s", line)


def banner(addresses: list[tuple[str, int]], settings: Settings, promise: str) -> list[str]:
    """Return the lines that are printed at the start: the URLs, the web page, and the guarantees of the storage."""
    scheme = "https" if settings.tls.configured else "http"
    urls = [f"{scheme}://{_bracketed(host)}:{port}" for host, port in addresses]
    page = f"; its page is {urls[0]}/ui/" if settings.ui.enabled and urls else ""
    return [f"everbrook listens on {' and '.join(urls)}{page}", f"storage {settings.storage.mode.value}: {promise}"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
