"""Storage for the offset of a reader, so that the next run of a program continues there.

The saved text is the offset and, if the server returns it, `@` and the incarnation of the stream. It has no spaces.
"""

import os
from pathlib import Path
from typing import Any, Protocol

from everbrook.atomic_file import replace_file


class Offsets(Protocol):
    """A place for one offset. Both methods may be coroutine functions if the reader is asynchronous."""

    def load(self) -> Any:
        """Return the last saved offset, or None."""

    def save(self, offset: str) -> Any:
        """Save an offset: everything before it was handled."""


class FileOffsets:
    """A file with one offset in it, replaced as a whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def load(self) -> str | None:
        """Read the offset, if there is one. A missing folder is an error here, before the first message is handled."""
        try:
            offset = self._path.read_text("ascii").strip()
        except FileNotFoundError:
            if not self._path.parent.is_dir():
                raise
            return None
        except UnicodeDecodeError:
            raise ValueError(
                f"{self._path} must hold an offset, got bytes that are no text: is it the file of another program?"
            ) from None
        if len(offset.split()) > 1:
            raise ValueError(
                f"{self._path} must hold an offset, got {offset!r:.80}: is it the file of another program?"
            )
        return offset or None

    def save(self, offset: str) -> None:
        """Write the offset. A crash leaves the old one or the new one."""
        replace_file(self._path, f"{offset}\n".encode(), durable=True)
