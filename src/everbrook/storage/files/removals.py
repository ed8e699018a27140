"""Removals: the segments that streams have let go of, removed in a thread of their own, the oldest of a log first.

What is removed was durably cut before. A crash may leave any of it: an opening after it sweeps that away.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from everbrook.storage.disk import Disk
from everbrook.storage.files.layout import Layout
from everbrook.storage.pin import Hold

logger = logging.getLogger(__name__)


class Removals:
    """Removes files in a thread, so that nobody has to wait for it."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        removed: Callable[[Path], None],
        hold: Hold,
        *,
        durable: bool,
        executor: Executor | None = None,
    ) -> None:
        """Call `removed` with each folder that something was removed from.

        `executor` removes one after the other. `close` shuts it down. The default is a thread.
        """
        self._disk = disk
        self._layout = layout
        self._removed = removed
        self._hold = hold
        self._durable = durable
        self._executor = executor or ThreadPoolExecutor(1, "everbrook-discard")
        self.failed = False
        """Whether something is left."""

    def add(self, incarnation: int, segments: range, last: int) -> None:
        """Remove segments of a log soon. The segment `last` says that they may go."""
        if segments:
            self._executor.submit(self._remove, incarnation, segments, last)

    def _remove(self, incarnation: int, segments: range, last: int) -> None:
        try:
            if not self._durable:
                self._sync(self._layout.segment(incarnation, last))
            for segment in segments:
                with suppress(FileNotFoundError):
                    self._hold.remove(self._layout.segment(incarnation, segment))
        except OSError as error:
            self.failed = True
            logger.warning("what a stream does not retain could not be removed; an opening tries it again: %s", error)
        self._removed(self._layout.bucket(incarnation))

    def add_files(self, paths: list[Path]) -> None:
        """Remove files soon that were kept for somebody."""
        if paths:
            self._executor.submit(self._remove_files, paths)

    def _remove_files(self, paths: list[Path]) -> None:
        for path in paths:
            try:
                self._hold.remove(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.failed = True
                logger.warning("%s could not be removed; an opening tries it again: %s", path, error)
            self._removed(path.parent)

    def _sync(self, path: Path) -> None:
        """Sync what would otherwise only be in the memory of the machine, if it was not dropped meanwhile."""
        with suppress(FileNotFoundError):
            file = self._disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
            self._disk.sync_folder(path.parent)

    def close(self) -> None:
        """Return when nothing is under way."""
        self._executor.shutdown()
