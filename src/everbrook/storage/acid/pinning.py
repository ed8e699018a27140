"""A pinned acid store: the journal up to what is durable, each shard as one of its transactions sees it, the blobs.

Files that are folded and removed meanwhile are held open. Folding goes on.
"""

import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from everbrook.storage.acid.pinned_shard import PinnedShard
from everbrook.storage.file_blobs import BLOBS, FileBlobs, parse_blob_name
from everbrook.storage.manifest import MANIFEST
from everbrook.storage.pin import OpenFile, PinnedFile, pinned_files, read_part, subfolders

_BLOB = re.compile(rf"{BLOBS}/[0-9a-f]{{2}}/[0-9a-f]{{16}}-[0-9a-f]{{16}}\.blob")


class AcidPin:
    """An acid store at one moment."""

    store = "acid"

    def __init__(
        self,
        folder: Path,
        open_shards: Callable[[], dict[str, PinnedShard]],
        blobs: FileBlobs,
        released: "Callable[[AcidPin, list[Path]], None]",
    ) -> None:
        """Pin a store, and call `released` in the end with the files that are to be removed."""
        self._folder = folder
        self.released = False
        self._released: Callable[[AcidPin, list[Path]], None] | None = released
        self._lock = Lock()
        self._blobs = blobs
        self._open: dict[str, OpenFile | PinnedShard] = {}
        self._lengths = blobs.hold.begin()
        try:
            # The journal before the shards: what is folded and removed between the two is in them already.
            self._open_files(open_shards)
        except BaseException:
            self.release()
            raise

    def _open_files(self, open_shards: Callable[[], dict[str, PinnedShard]]) -> None:
        self._open[MANIFEST] = OpenFile(self._folder / MANIFEST)
        for path in sorted((self._folder / "journal").glob("journal-*.log")):
            try:
                self._open[f"journal/{path.name}"] = OpenFile(path)
            except FileNotFoundError:
                continue
        for name, shard in open_shards().items():
            self._open[f"{name}/data.mdb"] = shard

    def folders(self) -> list[str]:
        held = {name.rpartition("/")[0] for name in self._open} | {"journal"}
        return sorted(held) + [f"{BLOBS}/{name}" for name in subfolders(self._folder / BLOBS)]

    def files(self, folder: str) -> list[PinnedFile]:
        if folder.startswith(f"{BLOBS}/") and "/" not in folder[len(BLOBS) + 1 :]:
            return [
                file
                for name, file in pinned_files(self._folder / folder, folder, self._lengths)
                if parse_blob_name(name)
            ]
        held = {name: file for name, file in self._open.items() if name.rpartition("/")[0] == folder}
        return [PinnedFile(name, file.size) for name, file in sorted(held.items())]

    def read(self, name: str, start: int, size: int) -> bytes:
        with self._lock:
            if file := self._open.get(name):
                return file.read(start, size)
        if not _BLOB.fullmatch(name):
            raise FileNotFoundError(f"{name} is not a file of this store")
        return read_part(self._folder / name, start, size)

    def release(self) -> None:
        self.released = True
        with self._lock:
            held, self._open = self._open, {}
        for file in held.values():
            file.close()
        if self._released:
            released, self._released = self._released, None
            released(self, self._blobs.hold.end(self._lengths))
