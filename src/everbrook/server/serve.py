"""A running server: from settings until it is told to stop.

SIGINT and SIGTERM: the first asks for a graceful stop, the second for an immediate one. SIGUSR2 asks for a restart in
place, SIGUSR1 for a new webhook key. SIGHUP asks for certificates, keys and policy to be read again; if the terminal
has gone, it asks for the stop.
"""

import asyncio
import contextlib
import gc
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
from everbrook.server.http1.listener import Listener
from everbrook.server.limits.descriptors import MIN_CONNECTIONS, allot, descriptor_limit, raise_limit, wanted
from everbrook.server.restart import (
    IGNORED,
    Estate,
    Inherited,
    Reporter,
    RestartFailed,
    bequeath,
    delay_signals,
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
# Where machines read the log they find there what people are told.
told = logging.getLogger("everbrook.told")
SWITCH_SECS = 0.001
"""How long the loop waits for the interpreter's lock while a thread that commits or makes a checkpoint computes."""


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


class StorageFailed(Exception):
    """The storage took no more writes, so the server has ended: whoever supervises it starts it again."""


def run(
    settings: Settings,
    command: Sequence[str] | None = None,
    open_storage: Callable[[Settings], Storage] = open_storage,
    assemble: Callable[[Settings, Storage], Application] = assemble,
) -> None:
    """Serve until SIGINT or SIGTERM. `command` is what starts this server, for a restart in place.

    `StorageFailed`: the storage was poisoned, and everything that waited was answered.
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
    """Serve on the running loop until a signal comes, or the storage fails."""
    # Until there is something to do at these signals they mean nothing; as they are found, they would end the process.
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
    take_delayed_signals()
    tell(*server.banner)
    heartbeat = Heartbeat(server.application.engine.faults)
    notify(READY)
    reporter.tell("ready")
    while await signals.wanted(server.failed):
        await _restart(server, command, signals, reporter)
    heartbeat.stop()
    try:
        await _stop(server, signals)
    except Exception:
        if not server.failed.is_set():
            raise
        logger.exception("the failed storage could not be closed")
    if server.failed.is_set():
        raise StorageFailed("the storage failed, and the log has the reason: start the server again")


class Server(Struct, frozen=True):
    """What is served, and to whom."""

    application: Application
    listener: Listener
    failed: asyncio.Event
    """Set when the storage takes no more writes. Only a new process can find out what is durable."""
    banner: Sequence[str]
    of_systemd: bool = False


async def _begin(
    settings: Settings,
    inherited: Inherited,
    open_storage: Callable[[Settings], Storage],
    assemble: Callable[[Settings, Storage], Application],
) -> Server:
    max_connections = allot_descriptors(settings, DEFAULT_TUNING.listener)
    storage = open_storage(settings)
    application = assemble(settings, storage)
    asyncio.get_running_loop().set_exception_handler(partial(_unhandled, application.engine.faults))
    failed = asyncio.Event()
    application.engine.on_failure = lambda _failure: failed.set()
    await application.begin()
    listener = Listener(application, max_connections)
    addresses = await _listen(listener, settings, inherited.listening)
    for caution in policy_warnings(settings, addresses):
        logger.warning("%s", caution)
    await listener.adopt(inherited.connections)
    # What is loaded by now stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    lines = banner(addresses, settings, storage.promise)
    return Server(application, listener, failed, lines, inherited.of_systemd)


def _unhandled(faults: Faults, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count an exception that nobody has handled. What the loop complains of without one is only logged."""
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
    stopping.cancel()
    await server.application.close()


async def _restart(server: Server, command: Sequence[str] | None, signals: Signals, reporter: Reporter) -> None:
    """Become the next image, if it would start. Returns if it would not, or if the end is asked for meanwhile."""
    try:
        if await signals.unless_stopped(_proved(server.application, command, reporter)):
            await _hand_over(server, signals, reporter)
    except EndWanted:
        reporter.tell("failed", "the server was told to stop")


async def _proved(application: Application, command: Sequence[str] | None, reporter: Reporter) -> bool:
    """Tell whether the next image would start. If not, this one goes on as if nothing had been asked."""
    reporter.begin()
    try:
        await prove(application.settings, command, application.tuning.restart)
    except RestartFailed as error:
        logger.error("no restart: %s", error)  # noqa: TRY400 - it says all there is to say
        reporter.tell("failed", str(error))
        return False
    return True


async def _hand_over(server: Server, signals: Signals, reporter: Reporter) -> NoReturn:
    """Become the next image. From where the storage is closed on there is no way back."""
    settings = server.application.settings.server
    tell("everbrook restarts in place")
    notify(reloading())
    reporter.tell("leaving")
    listening, connections = await signals.unless_stopped(server.listener.leave(settings.shutdown_grace_secs))
    await server.application.close()
    delay_signals()
    # A signal that came before is taken by the loop in its next turn.
    await asyncio.sleep(0)
    if signals.first.is_set():
        put_aside(signal.SIGTERM)
    reporter.tell("starting")
    bequeath(Estate(settings.host, settings.port, listening, connections, reporter.attempt, server.of_systemd))


def check_start(settings: Settings) -> None:
    """Put everything together as a start does, but for the storage and the sockets, which another image still has."""

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
    """Let the process have as many descriptors as it may need. Gives how many connections fit in what it got."""
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


def reload(application: Application) -> None:
    """Have certificates, keys and policy read anew. What can't be read stays as it was."""
    notify(reloading())
    problems: list[str] = []
    for hook in application.on_reload:
        try:
            hook()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one must not keep the others from it
            problems.append(str(error))
            logger.error("a part was not reloaded and stays unchanged: %s", error)  # noqa: TRY400
    application.observer.reloaded("; ".join(problems))
    notify(READY)
    but = ", but for what the log names" if problems else ""
    tell(f"everbrook has reloaded certificates, keys and policy{but}")


def tell(*lines: str) -> None:
    """Say something to the person who started the server, if there still is one."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", flush=True)  # noqa: T201 - it is for a person
    for line in lines:
        told.info("%s", line)


def banner(addresses: list[tuple[str, int]], settings: Settings, promise: str) -> list[str]:
    """Say where the server listens, where its page is, which storage it has, and what that promises."""
    scheme = "https" if settings.tls.configured else "http"
    urls = [f"{scheme}://{_bracketed(host)}:{port}" for host, port in addresses]
    page = f"; its page is {urls[0]}/ui/" if settings.ui.enabled and urls else ""
    return [f"everbrook listens on {' and '.join(urls)}{page}", f"storage {settings.storage.mode.value}: {promise}"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
