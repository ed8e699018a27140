"""Restarts in place: a server becomes its next image by `exec`, in the same process, and keeps its sockets.

First the server runs the same command line with `--check`, to find out whether the next image would start. It writes
its progress to a file in the data folder, where `everbrook restart` reads it. Listening sockets and idle connections
stay open all the time: clients that connect or send a request meanwhile wait in the kernel. The handover is written to
an unnamed file, whose descriptor is in the environment.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal, NoReturn

import msgspec
from msgspec import Struct

from everbrook.atomic_file import replace_file
from everbrook.settings import Settings, StorageMode

if TYPE_CHECKING:
    from everbrook.server.tuning import RestartTuning

REPORT = "restart.json"
CHECK_FLAG = "--check"

Phase = Literal["checking", "leaving", "starting", "ready", "failed"]
OVER: tuple[Phase, ...] = ("ready", "failed")


VARIABLE = "EVERBROOK_HANDOVER"
FIRST_OF_SYSTEMD = 3
# Until the next image has handlers, IGNORED must not end the process, and DELAYED must not be lost.
IGNORED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
DELAYED = (signal.SIGINT, signal.SIGTERM)


class Report(Struct, frozen=True):
    """The progress of the newest attempt to restart."""

    attempt: int = 0
    phase: Phase = "ready"
    process: int = 0
    message: str = ""


class RestartFailed(Exception):
    """The next image would not start, so the present one continues."""


def report_path(settings: Settings) -> Path:
    """Return the path of the file with the progress of a restart."""
    return Path(settings.storage.data_dir) / REPORT


def read_report(path: Path) -> Report:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError):
        return Report()


class Reporter:
    """Writes the progress of an attempt. A restart continues even if the progress can't be written."""

    def __init__(self, settings: Settings, attempt: int = 0) -> None:
        self._path = report_path(settings)
        self.attempt = attempt

    def begin(self) -> None:
        self.attempt = read_report(self._path).attempt + 1
        self.tell("checking")

    def tell(self, phase: Phase, message: str = "") -> None:
        """Write the phase of the attempt, if there is one."""
        if not self.attempt:
            return
        report = Report(self.attempt, phase, os.getpid(), message)
        with contextlib.suppress(OSError):
            replace_file(self._path, msgspec.json.encode(report))


async def prove(settings: Settings, command: Sequence[str] | None, tuning: "RestartTuning") -> None:
    """Check whether the next image would start, as far as that is possible. If not, raise `RestartFailed`."""
    if command is None:
        raise RestartFailed("only a server that `everbrook serve` has started can restart in place")
    if settings.storage.mode is StorageMode.MEMORY:
        raise RestartFailed("storage memory: a restart would lose every stream")
    # Without this variable the check does not report itself to systemd as a service that is ready.
    environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            CHECK_FLAG,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise RestartFailed(f"{command[0]} can't be started: {error.strerror}") from error
    await _judge(process, tuning)


async def _judge(process: asyncio.subprocess.Process, tuning: "RestartTuning") -> None:
    try:
        output, _ = await asyncio.wait_for(process.communicate(), tuning.check_secs)
    except TimeoutError:
        raise RestartFailed(f"a check of the next image took longer than {tuning.check_secs:g} s") from None
    finally:
        # A timeout, or a stop of the server: the check must not outlive either.
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        words = output[-tuning.max_output_bytes :].decode(errors="replace").strip()
        raise RestartFailed(f"the next image would not start: {words or f'it ended with {process.returncode}'}")


class Handover(Struct, frozen=True):
    """What one image hands over to the next: descriptors, and the address of the settings.

    Sockets of systemd (`of_systemd`) are kept whatever the settings say, because systemd keeps them open.
    """

    host: str
    port: int
    listening: list[int]
    connections: list[int]
    attempt: int = 0
    of_systemd: bool = False


class Inherited(Struct):
    """What an image has taken over at its start."""

    listening: list[socket.socket] = []
    connections: list[socket.socket] = []
    attempt: int = 0
    of_systemd: bool = False

    def close_connections(self) -> None:
        """Close the connections, because they can't be served any more."""
        for connection in self.connections:
            connection.close()
        self.connections = []


def inherit(host: str, port: int, environment: MutableMapping[str, str] = os.environ) -> Inherited:
    """Take over the sockets of the previous image or of systemd.

    The variables are removed from the environment, because child processes must not see them.
    """
    number = environment.pop(VARIABLE, None)
    if number is not None:
        handover = _read(int(number))
        listening = [_take(each) for each in handover.listening]
        if not handover.of_systemd and (handover.host, handover.port) != (host, port):
            # The settings have changed: the server listens at the new address, and keeps the open connections.
            _close(listening)
            listening = []
        connections = [_take(each) for each in handover.connections]
        return Inherited(listening, connections, handover.attempt, handover.of_systemd)
    listening = _of_systemd(environment)
    return Inherited(listening, of_systemd=bool(listening))


def _of_systemd(environment: MutableMapping[str, str]) -> list[socket.socket]:
    owner, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    environment.pop("LISTEN_FDNAMES", None)
    if owner != str(os.getpid()) or not count.isdecimal():
        return []
    return [_take(FIRST_OF_SYSTEMD + each) for each in range(int(count))]


def _take(descriptor: int) -> socket.socket:
    taken = socket.socket(fileno=descriptor)
    taken.set_inheritable(False)
    taken.settimeout(0)
    return taken


def _close(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _read(descriptor: int) -> Handover:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=Handover)


def hand_over(handover: Handover) -> NoReturn:
    """Become the next image of this program. The caller has closed everything that the next image opens itself."""
    number_of_file = write_handover(handover)
    for descriptor in (number_of_file, *handover.listening, *handover.connections):
        # `exec` closes all descriptors that are not inheritable.
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - it knows no name
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # From here on a signal that another thread receives can't be redirected to the main thread. The default action,
    # which ends the process, is better than a lost signal, and is safe: everything is closed by now.
    for number in DELAYED:
        signal.signal(number, signal.SIG_DFL)
    os.execve(sys.executable, command_line(), os.environ | {VARIABLE: str(number_of_file)})  # noqa: S606 - it starts this program again


def write_handover(handover: Handover) -> int:
    """Write a handover to an unnamed file. Return its descriptor, which the next image finds in `VARIABLE`."""
    with tempfile.TemporaryFile() as file:
        file.write(msgspec.json.encode(handover))
        file.flush()
        return os.dup(file.fileno())


def command_line() -> list[str]:
    """Return the command line that this program was started with."""
    return [sys.executable, *sys.orig_argv[1:]]


def delay_signals() -> None:
    """Block the signals that stop the server, until the next image can handle them.

    A thread that a library has started may still receive one. It is then redirected to the main thread, which `exec`
    keeps with its pending signals.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, DELAYED)
    for number in DELAYED:
        signal.signal(number, put_aside)


def put_aside(number: int, _frame: FrameType | None = None) -> None:
    """Make a signal pending for the next image."""
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def take_delayed_signals() -> None:
    """Unblock the delayed signals."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, DELAYED)
