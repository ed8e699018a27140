"""What a deliberate bug is. They are kept to prove that the crash tests can fail: each must be caught by itself.

Some only forget to do something to the disk; others change the code as a slip of the pen could.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from msgspec import Struct

from everbrook.protocol import Edit, Write
from everbrook.storage.codec import pack_edit
from tests.crash.simulation.modes import MODES
from tests.crash.simulation.recorder import Alters, RecordingFile, alters_nothing

Result = TypeVar("Result")
ALL = tuple(MODES)
DURABLE = tuple(name for name, mode in MODES.items() if mode.durable)
FILES = ("file-durable", "file-fast")
# Where it does not matter how a mode syncs, one of each kind is enough.
BOTH = ("acid", "file-fast")


def sows_nothing(_patch: pytest.MonkeyPatch) -> None:
    pass


class Bug(Struct, frozen=True):
    """Something that must not be wrong, and what makes it wrong.

    The search for a crash that shows it begins with `seed`. A bug that one seed in ten or fewer shows has the number of
    one that shows it in each of its modes: searching for it cost more than all other bugs together.
    """

    modes: Sequence[str]
    sow: Callable[[pytest.MonkeyPatch], None] = sows_nothing
    alters: Alters = alters_nothing
    level: str = "storage"
    seed: int = 2000


def without_syncing(call: Callable[..., Result], *args: object) -> Result:
    """Call something, and let none of the files that it writes be synced."""
    really_write = RecordingFile.write_at

    def write_at(file: RecordingFile, position: int, data: bytes, *, sync: bool = False) -> None:
        really_write(file, position, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordingFile, "write_at", write_at)
        patch.setattr(RecordingFile, "sync", lambda _file: None)
        return call(*args)


def write_otherwise(patch: pytest.MonkeyPatch, turned: Callable[[Write], Write]) -> None:
    """Let the journal have something else than what was decided."""

    def pack(edit: Edit) -> bytes:
        return pack_edit(turned(edit) if isinstance(edit, Write) else edit)

    patch.setattr("everbrook.storage.durable.pack_change", lambda change: b"".join(map(pack, change)))
