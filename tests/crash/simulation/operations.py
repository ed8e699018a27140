"""What happens to a disk, as a list: everything that a crash can cut short, undo or leave half done.

A file is known by a number of its own, as its name may change. Paths are relative to the root of the recording.
"""

from pathlib import Path

from msgspec import Struct


class Made(Struct, frozen=True):
    """A folder was made."""

    path: Path


class Created(Struct, frozen=True):
    """A file was created."""

    path: Path
    file: int


class Wrote(Struct, frozen=True):
    """Bytes were written at a position of a file. With `synced` they reached the disk, and no others did.

    If they are `forgotten`, a sync of them has failed: processes read them, and no sync writes them any more.
    """

    file: int
    position: int
    data: bytes
    synced: bool = False
    forgotten: bool = False

    @property
    def end(self) -> int:
        return self.position + len(self.data)


class Allocated(Struct, frozen=True):
    """A file was made longer, with zeros."""

    file: int
    size: int


class Cut(Struct, frozen=True):
    """A file was cut back."""

    file: int
    size: int


class Synced(Struct, frozen=True):
    """All that was written to a file reached the disk."""

    file: int


class SyncFailed(Struct, frozen=True):
    """Nothing that was written to a file and not synced reached the disk, and the system takes it for written."""

    file: int


class Committed(Struct, frozen=True):
    """A database replaced its content, entirely or not at all; it syncs by itself.

    `applied` is the number of the last change of the journal that it has.
    """

    file: int
    image: bytes
    synced: bool = True
    applied: int = 0


class Renamed(Struct, frozen=True):
    """A file got another name in the same folder."""

    source: Path
    target: Path
    file: int


class Removed(Struct, frozen=True):
    """A file lost its name."""

    path: Path


class FolderSynced(Struct, frozen=True):
    """The names in a folder reached the disk."""

    path: Path


ContentOperation = Wrote | Allocated | Cut | Committed
NameOperation = Made | Created | Renamed | Removed
Operation = ContentOperation | NameOperation | Synced | SyncFailed | FolderSynced


def described(operation: Operation) -> str:
    """Put an operation into a line that a person can read."""
    if isinstance(operation, Wrote):
        how = ", synced" if operation.synced else ""
        return f"wrote {len(operation.data)} bytes to file {operation.file} at {operation.position}{how}"
    if isinstance(operation, Committed):
        state = f"synced={operation.synced}, applied={operation.applied}"
        return f"committed {len(operation.image)} bytes to file {operation.file} ({state})"
    return str(operation)
