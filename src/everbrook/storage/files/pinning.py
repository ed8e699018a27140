"""A pinned store of the file modes: its logs as long as they were, its catalogue, its blobs.

Nothing is looked at when the pin is made: logs only grow, and whoever writes to one has noted its length before.
"""

import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from everbrook.storage.file_blobs import BLOBS, parse_blob_name
from everbrook.storage.files.layout import STREAMS, parse_segment_name
from everbrook.storage.manifest import MANIFEST
from everbrook.storage.pin import ABSENT, Hold, OpenFile, PinnedFile, pinned_files, read_part, subfolders

_NAME = re.compile(rf"({STREAMS}|{BLOBS})/[0-9a-f]{{2}}/([0-9a-f-]+\.(?:log|blob))")
_PARSE: dict[str, Callable[[str], object]] = {STREAMS: parse_segment_name, BLOBS: parse_blob_name}


class FilesPin:
    """A store of the file modes at one moment."""

    store = "file"

    def __init__(
        self, folder: Path, catalogue: Path | None, hold: Hold, released: "Callable[[FilesPin, list[Path]], None]"
    ) -> None:
        """Pin a store, and call `released` in the end with the files that are to be removed."""
        self._folder = folder
        self.released = False
        self._hold = hold
        self._released: Callable[[FilesPin, list[Path]], None] | None = released
        self._lock = Lock()
        self._lengths = hold.begin()
        self._open: dict[str, OpenFile] = {}
        try:
            for path in (folder / MANIFEST, catalogue):
                if path:
                    self._open[path.name] = OpenFile(path)
        except BaseException:
            self.release()
            raise

    def folders(self) -> list[str]:
        below = [f"{kind}/{name}" for kind in (STREAMS, BLOBS) for name in subfolders(self._folder / kind)]
        return ["", STREAMS, *below]

    def files(self, folder: str) -> list[PinnedFile]:
        if not folder:
            return [PinnedFile(name, file.size) for name, file in sorted(self._open.items())]
        parse = _PARSE.get(folder.partition("/")[0])
        if parse is None or folder.count("/") != 1 or ".." in folder:
            return []
        found = pinned_files(self._folder / folder, folder, self._lengths)
        return [file for name, file in found if parse(name)]

    def read(self, name: str, start: int, size: int) -> bytes:
        with self._lock:
            if file := self._open.get(name):
                return file.read(start, size)
        parts = _NAME.fullmatch(name)
        if not parts or not _PARSE[parts[1]](parts[2]):
            raise FileNotFoundError(f"{name} is not a file of this store")
        path = self._folder / name
        part = read_part(path, start, size)
        # After the reading: who writes has noted the length before.
        length = self._lengths.get(path)
        if length == ABSENT:
            raise FileNotFoundError(f"{name} is younger than this")
        return part if length is None else part[: max(0, length - start)]

    def release(self) -> None:
        self.released = True
        with self._lock:
            held, self._open = self._open, {}
        for file in held.values():
            file.close()
        if self._released:
            released, self._released = self._released, None
            released(self, self._hold.end(self._lengths))
