"""The store of the settings, and the server that uses it: found by the lock of the store, controlled by signals.

A process gets a signal only if it has a handler for it: the default action would end any other process.
"""

import os
import signal
from pathlib import Path

import click

from everbrook.cli.terminal.flags import FLAGS, Command, layer_flags, read_flags
from everbrook.file_lock import find_owner
from everbrook.settings import Settings, StorageMode, load_layers

PROCESSES = Path("/proc")


def store_flags(command: Command) -> Command:
    """Give a command the flags that choose a store."""
    for flag in reversed(FLAGS):
        if flag.setting.startswith("storage."):
            command = flag.add_to(command)
    return layer_flags(command)


def store_settings(
    profile: str | None, config_file: Path | None, flags: dict[str, str | None], instead: str
) -> Settings:
    """Load the settings of a store. `instead` is the advice for memory mode, which has no store."""
    unset: dict[str, str | None] = dict.fromkeys(flag.parameter for flag in FLAGS)
    settings = load_layers(profile=profile, config_file=config_file, flags=read_flags(unset | flags)).settings
    if settings.storage.mode is StorageMode.MEMORY:
        raise click.ClickException(f"storage memory has no store: {instead}")
    return settings


def find_holder(settings: Settings) -> int | None:
    """Return the process that has the lock of a store, or None. A store that does not exist is an error."""
    from everbrook.storage.manifest import LOCK, MANIFEST

    folder = settings.storage.store_dir
    if not (folder / MANIFEST).is_file():
        raise click.ClickException(f"there is no store in {folder}")
    return find_owner(folder / LOCK)


def ask(process: int, number: signal.Signals, does: str) -> None:
    """Send a signal to the server that has a store."""
    if not takes(process, number):
        raise click.ClickException(
            f"process {process} has the store, and no handler for {number.name}: "
            f"only a server that `everbrook serve` has started, and that is ready, {does} on a signal"
        )
    try:
        os.kill(process, number)
    except OSError as error:
        raise click.ClickException(f"process {process} can't be sent {number.name}: {error.strerror}") from error


def takes(process: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal; False on systems without /proc."""
    return bool(int(_status(process).get("SigCgt", "0"), 16) >> (number - 1) & 1)


def is_alive(process: int) -> bool:
    """Return whether a process runs. A zombie, for which its parent has not waited yet, does not."""
    return not _status(process).get("State", "Z").startswith("Z")


def _status(process: int) -> dict[str, str]:
    try:
        lines = (PROCESSES / str(process) / "status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
