"""Restarts in place, seen from both sides: the server that restarts, and the command that waits for it.

Before a server gives anything up it has the same command line prove that the next image would start. What became of
the attempt is written to a file in the folder of the data, where `everbrook restart` reads it.
"""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from everbrook.settings import Settings, StorageMode

if TYPE_CHECKING:
    from everbrook.server.tuning import RestartTuning

REPORT = "restart.json"
CHECK_FLAG = "--check"

Phase = Literal["checking", "leaving", "starting", "ready", "failed"]
OVER: tuple[Phase, ...] = ("ready", "failed")


class Report(Struct, frozen=True):
    """How far the newest attempt to restart has come."""

    attempt: int = 0
    phase: Phase = "ready"
    process: int = 0
    message: str = ""


class RestartFailed(Exception):
    """The next image would not start, so this one goes on."""


def report_path(settings: Settings) -> Path:
    """Say where a server writes what became of a restart."""
    return Path(settings.storage.data_dir) / REPORT


def read_report(path: Path) -> Report:
    """Give the newest report, or an empty one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError):
        return Report()


class Reporter:
    """Writes how far an attempt has come. A report that can't be written does not stop a restart."""

    def __init__(self, settings: Settings, attempt: int = 0) -> None:
        self._path = report_path(settings)
        self.attempt = attempt

    def begin(self) -> None:
        """Begin an attempt."""
        self.attempt = read_report(self._path).attempt + 1
        self.tell("checking")

    def tell(self, phase: Phase, message: str = "") -> None:
        """Write that the attempt has come so far, if there is one."""
        if not self.attempt:
            return
        report = Report(self.attempt, phase, os.getpid(), message)
        draft = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            draft.write_bytes(msgspec.json.encode(report))
            draft.replace(self._path)


async def prove(settings: Settings, command: Sequence[str] | None, tuning: "RestartTuning") -> None:
    """Return if the next image would start, as far as that can be known beforehand; else raise `RestartFailed`."""
    if command is None:
        raise RestartFailed("only a server that `everbrook serve` has started can restart in place")
    if settings.storage.mode is StorageMode.MEMORY:
        raise RestartFailed("storage memory: a restart would lose every stream")
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
        told, _ = await asyncio.wait_for(process.communicate(), tuning.check_secs)
    except TimeoutError:
        raise RestartFailed(f"a check of the next image took longer than {tuning.check_secs:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        words = told[-tuning.max_output_bytes :].decode(errors="replace").strip()
        raise RestartFailed(f"the next image would not start: {words or f'it ended with {process.returncode}'}")
