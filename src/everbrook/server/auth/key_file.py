"""Files of keys: how they are written, and how a server reads them again when they change.

One process at a time changes a file, and replaces it atomically: a server that reads it meanwhile sees the old text or
the new one. If the new text can't be used, the server logs that once, and the old text stays valid.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from everbrook import file_lock
from everbrook.atomic_file import replace_file
from everbrook.server.tuning import AUTH_TUNING, WatchTuning
from everbrook.settings import SettingsError

OWNER_ONLY = 0o600


logger = logging.getLogger(__name__)
T = TypeVar("T")
Stamp = tuple[int, int, int]


def edit(path: Path, change: Callable[[bytes | None], bytes]) -> None:
    """Replace the text of a file by `change(text)`. The text is None if there is no file."""
    with locked(path):
        write(path, change(path.read_bytes() if path.exists() else None))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file against changes by other processes. Its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock.locked(path.with_name(f".{path.name}.lock"), wait=True, mode=OWNER_ONLY):
        yield


def write(path: Path, text: bytes) -> None:
    """Replace a file by one that only its owner may read. The text is durable when this returns."""
    replace_file(path, text, mode=OWNER_ONLY, durable=True)


class WatchedFile(Generic[T]):
    """The parsed content of a file. `generation` counts how often it was read again."""

    def __init__(
        self,
        path: str,
        parse: Callable[[bytes], T],
        *,
        setting: str,
        advice: str = "",
        tuning: WatchTuning = AUTH_TUNING.watch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file, or raise `SettingsError`. `parse` raises `ValueError` for a text that can't be used.

        `advice` says how to create a missing file.
        """
        self._path = Path(path)
        self._parse = parse
        self._look_secs = tuning.look_secs
        self._max_bytes = tuning.max_file_bytes
        self._clock = clock
        self.generation = 0
        try:
            # The stamp is taken before the text is read, so that a change in between is noticed by the next check.
            self._stamp: Stamp | None = self._look()
            self._value = self._read()
        except (OSError, ValueError) as error:
            more = f"; {advice}" if advice and isinstance(error, FileNotFoundError) else ""
            raise SettingsError(setting, f"{path} can't be used: {_reason(error)}{more}") from None
        self._checked_at = clock()

    @property
    def value(self) -> T:
        """The content when the file was last checked, at most a second ago."""
        self.check()
        return self._value

    def check(self) -> None:
        """Read the file if it has changed, unless it was checked a moment ago."""
        now = self._clock()
        if now - self._checked_at >= self._look_secs:
            self._checked_at = now
            self.refresh()

    def refresh(self) -> None:
        """Read the file if it has changed."""
        try:
            stamp = self._look()
        except OSError as error:
            self._complain(None, error)
            return
        if stamp != self._stamp:
            try:
                self._take(stamp)
            except Exception as error:  # noqa: BLE001 - whatever is in the file, the old content stays
                self._complain(stamp, error)

    def reload(self) -> None:
        """Read the file, changed or not. If it can't be used, raise ValueError and keep the old content."""
        try:
            self._take(self._look())
        except Exception as error:  # noqa: BLE001 - as above
            raise ValueError(f"{self._path} can't be used: {_reason(error)}") from None

    def _take(self, stamp: Stamp) -> None:
        self._value = self._read()
        self._stamp = stamp
        self.generation += 1
        logger.info("%s was read again", self._path)

    def _complain(self, stamp: Stamp | None, error: Exception) -> None:
        """Log what is wrong with the file, once for each state of it."""
        if self._stamp != stamp:
            logger.warning("%s can't be used, and its old content stays valid: %s", self._path, _reason(error))
        self._stamp = stamp

    def _look(self) -> Stamp:
        found = self._path.stat()
        # The inode shows a replacement by a file of the same time and size.
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> T:
        with self._path.open("rb") as file:
            # The size is limited by reading, because a file may grow after a check of its size.
            text = file.read(self._max_bytes + 1)
        if len(text) > self._max_bytes:
            raise ValueError(f"it has more than {self._max_bytes} bytes")
        return self._parse(text)


def _reason(error: Exception) -> str:
    """Say what is wrong, without the text of the file: it may hold secrets."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) if isinstance(error, OSError | ValueError) else type(error).__name__
