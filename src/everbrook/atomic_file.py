"""Files that are replaced as a whole: a reader finds the old content or the new one, also after a crash."""

import os
import sys
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Replace a file, or create it. With `durable`, the new content survives a crash of the machine afterwards."""
    # Other processes and threads may replace the same file at the same time, so each has a draft of its own.
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
            if durable:
                # Before the rename: otherwise a crash could leave the new name with content that is not on the disk.
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Windows can't open folders."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
