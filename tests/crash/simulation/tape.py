"""A tape: an image, and everything that happened to it since.

A crash cuts the tape. If only the process dies, all that was done is still there, and what was not synced is as unsafe
as before: the tape goes on. If the power fails, chance decides about everything that was not synced, and a new tape
begins with what is left.
"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

from msgspec.structs import replace

from tests.crash.simulation.image import Image
from tests.crash.simulation.operations import (
    Allocated,
    Committed,
    ContentOperation,
    Created,
    Cut,
    FolderSynced,
    Made,
    NameOperation,
    Operation,
    Removed,
    Renamed,
    Synced,
    SyncFailed,
    Wrote,
)
from tests.crash.simulation.survival import change_content, surviving_content, surviving_names, written

ROOT = Path()
IN_FLIGHT = 0.75
Names = dict[str, int | None]
"""The names in a folder: the number of a file, or None for a folder."""
Contents = Callable[[bytes, list[ContentOperation]], bytes]
Listing = Callable[[Names, list[NameOperation]], Names]


class Tape:
    """Records operations, and gives the images that a crash may leave."""

    def __init__(self, base: Image | None = None, operations: list[Operation] | None = None, boot: int = 0) -> None:
        self.base = base or Image()
        self.operations: list[Operation] = operations or []
        self.boot = boot
        """How often the machine has been started again."""

    def __len__(self) -> int:
        return len(self.operations)

    def kill(self, length: int, chance: Random) -> "Tape":
        """Let the process die after some operations. The one that it was busy with may be half done."""
        kept = list(islice(self.operations, length))
        if length < len(self.operations):
            kept += _begun(self.operations[length], chance)
        return Tape(self.base, kept, self.boot)

    def fail_power(self, length: int, chance: Random) -> "Tape":
        """Let the power fail after some operations, and perhaps in the middle of the next one."""
        disk = self.disk_after(length)
        if length < len(self.operations) and chance.random() < IN_FLIGHT:
            for operation in _unsynced(self.operations[length]):
                disk.take(operation)
        return Tape(disk.survivors(chance), boot=self.boot + 1)

    def copy(self) -> "Tape":
        """Give a tape that goes on by itself."""
        return Tape(self.base, list(self.operations), self.boot)

    def disk_after(self, length: int) -> "DiskState":
        """Give the disk as it is after some operations."""
        disk = DiskState(self.base)
        for operation in islice(self.operations, length):
            disk.take(operation)
        return disk


def _begun(operation: Operation, chance: Random) -> list[Operation]:
    """Give what a process has done of an operation when it is killed: nothing, a part, or all of it but the sync."""
    done = chance.choice(("nothing", "part", "all"))
    if done == "nothing" or not isinstance(operation, Wrote | Committed):
        return []
    if done == "part" and isinstance(operation, Wrote):
        return [Wrote(operation.file, operation.position, operation.data[: chance.randrange(len(operation.data) + 1)])]
    return _unsynced(operation)


def _unsynced(operation: Operation) -> list[Operation]:
    """Give what is done of an operation before the sync that belongs to it. A sync by itself has done nothing."""
    if isinstance(operation, Synced | SyncFailed | FolderSynced):
        return []
    return [replace(operation, synced=False) if isinstance(operation, Wrote | Committed) else operation]


class DiskState:
    """What is on the disk for certain, and what is on its way there."""

    def __init__(self, base: Image) -> None:
        self._contents: dict[int, bytes | bytearray] = {
            number: base.files[path] for path, number in base.numbered().items()
        }
        self._unsynced: dict[int, list[ContentOperation]] = {}
        """What is done to files since all that was done to them was synced. Writes among it may be synced already.

        What a sync that failed has forgotten stays in it, and all that comes behind it.
        """
        self._names: dict[Path, Names] = {ROOT: {}}
        self._unsynced_names: dict[Path, list[NameOperation]] = {}
        for folder in base.folders:
            self._names.setdefault(folder, {})
            self._names.setdefault(folder.parent, {})[folder.name] = None
        for path, number in base.numbered().items():
            self._names[path.parent][path.name] = number

    def take(self, operation: Operation) -> None:
        """Let an operation happen."""
        if isinstance(operation, Wrote) and operation.synced and operation.file not in self._unsynced:
            held = self._contents.get(operation.file, b"")
            if not isinstance(held, bytearray):
                held = self._contents[operation.file] = bytearray(held)
            change_content(held, operation)
        elif isinstance(operation, Wrote | Allocated | Cut):
            self._unsynced.setdefault(operation.file, []).append(operation)
        elif isinstance(operation, Synced):
            self._settle(operation.file)
        elif isinstance(operation, SyncFailed):
            self._turn_writes(operation.file, "forgotten")
        elif isinstance(operation, Committed):
            self._unsynced.setdefault(operation.file, []).append(operation)
            if operation.synced:
                self._settle(operation.file)
        elif isinstance(operation, FolderSynced):
            changes = self._unsynced_names.pop(operation.path, [])
            self._names[operation.path] = renamed(self._names.get(operation.path, {}), changes)
        else:
            self._take_name(operation)

    def _turn_writes(self, file: int, fate: str) -> None:
        """Let the writes to a file whose fate was open have one."""
        changes = self._unsynced.get(file, [])
        for place, change in enumerate(changes):
            if isinstance(change, Wrote) and not change.synced and not change.forgotten:
                changes[place] = replace(change, **{fate: True})

    def _settle(self, file: int) -> None:
        if any(isinstance(change, Wrote) and change.forgotten for change in self._unsynced.get(file, ())):
            self._turn_writes(file, "synced")
            return
        changes = self._unsynced.pop(file, None)
        if changes:
            self._contents[file] = written(bytes(self._contents.get(file, b"")), changes)

    def _take_name(self, operation: NameOperation) -> None:
        path = operation.target if isinstance(operation, Renamed) else operation.path
        self._unsynced_names.setdefault(path.parent, []).append(operation)

    def files(self) -> list[int]:
        """Give the number of every file there has been."""
        return [*self._contents, *self._unsynced]

    def numbers(self) -> dict[Path, int]:
        """Give the files that have a name now, by it."""
        listed = {folder: self._listed(folder) for folder in {*self._names, *self._unsynced_names}}
        return {
            folder / name: number
            for folder, names in listed.items()
            for name, number in names.items()
            if number is not None
        }

    def _listed(self, folder: Path) -> Names:
        return renamed(self._names.get(folder, {}), self._unsynced_names.get(folder, []))

    def everything(self) -> Image:
        """Give what a process sees that starts now."""
        return self._image(written, renamed)

    def survivors(self, chance: Random) -> Image:
        """Give what a power failure may leave."""
        return self._image(
            lambda content, changes: surviving_content(content, changes, chance),
            lambda names, changes: renamed(names, surviving_names(changes, chance)),
        )

    def _image(self, content_of: Contents, names_of: Listing) -> Image:
        folders: list[Path] = []
        files: dict[Path, bytes] = {}
        waiting = [ROOT]
        while waiting:
            folder = waiting.pop()
            names = names_of(self._names.get(folder, {}), self._unsynced_names.get(folder, []))
            for name, file in sorted(names.items()):
                path = folder / name
                if file is None:
                    folders.append(path)
                    waiting.append(path)
                else:
                    content = bytes(self._contents.get(file, b""))
                    changes = self._unsynced.get(file)
                    files[path] = content_of(content, changes) if changes else content
        return Image(tuple(folders), files)


def renamed(names: Names, changes: list[NameOperation]) -> Names:
    """Give the names in a folder after changes."""
    names = dict(names)
    for change in changes:
        if isinstance(change, Made):
            names[change.path.name] = None
        elif isinstance(change, Created):
            names[change.path.name] = change.file
        elif isinstance(change, Removed):
            names.pop(change.path.name, None)
        else:
            names.pop(change.source.name, None)
            names[change.target.name] = change.file
    return names
