"""Checking blobs: that the snapshot of every stream is there, with its size and its digest."""

from contextlib import closing
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Head, Snapshot
from everbrook.storage.check.report import Notebook
from everbrook.storage.damage import Damaged
from everbrook.storage.disk import OsDisk
from everbrook.storage.file_blobs import BLOBS, FileBlobs, blob_file_bytes, blob_path
from everbrook.storage.pin import Hold

READ_BYTES = 1 << 20


class Expected(Struct, frozen=True):
    """A blob that must be there, and the first stream that needs it."""

    name: bytes
    snapshot: Snapshot


class BlobCheck:
    """Takes the streams of a store, and then looks at its blobs."""

    def __init__(self, folder: Path, notebook: Notebook) -> None:
        self._folder = folder / BLOBS
        disk = OsDisk()
        self._blobs = FileBlobs(disk, self._folder, Hold(disk))
        self._notebook = notebook
        self._expected: dict[tuple[int, int], Expected] = {}
        self._inherited: set[tuple[int, int]] = set()

    def add(self, head: Head) -> None:
        if snapshot := _stored(head.kept.snapshot):
            place = (snapshot.owner, snapshot.blob)
            self._expected.setdefault(place, Expected(head.identity.name, snapshot))
        if snapshot := _stored(head.identity.first_kept.snapshot):
            self._inherited.add((snapshot.owner, snapshot.blob))

    def run(self) -> None:
        """Check the blobs that the streams need, and count those that none does."""
        for (owner, blob), expected in self._expected.items():
            self._check(blob_path(self._folder, owner, blob), expected)
        orphans = 0
        for blobs in self._blobs.all():
            orphans += len(set(blobs) - self._expected.keys() - self._inherited)
        if orphans:
            self._notebook.remark(f"{orphans} blobs belong to no snapshot; the next start removes them")

    def _check(self, path: Path, expected: Expected) -> None:
        snapshot = expected.snapshot
        whose = f"the snapshot of stream {quoted(expected.name)} at offset {snapshot.offset}"
        self._notebook.at(path)
        try:
            size, expected_bytes = path.stat().st_size, blob_file_bytes(snapshot.size)
            if size != expected_bytes:
                self._notebook.damage(f"{whose} is a file of {size} bytes, and should have {expected_bytes}")
            elif self._digest(snapshot) != snapshot.digest:
                self._notebook.damage(f"{whose} is not what was published: its SHA-256 is another")
        except FileNotFoundError:
            self._notebook.damage(f"{whose} is missing")
        except OSError as error:
            self._notebook.damage(f"{whose} can't be read: {error.strerror}")
        except Damaged as damage:
            self._notebook.damage(f"{whose} is not what was published: {damage.mark.reason}")

    def _digest(self, snapshot: Snapshot) -> bytes:
        """Read a blob. Gives its SHA-256."""
        digest = sha256()
        with closing(self._blobs.open(snapshot.owner, snapshot.blob, snapshot.size)) as reader:
            while data := reader.read(READ_BYTES):
                digest.update(data)
                self._notebook.advance(len(data))
        return digest.digest()


def _stored(snapshot: Snapshot | None) -> Snapshot | None:
    """Give a snapshot if it has a blob."""
    return None if snapshot is None or snapshot.automatic else snapshot
