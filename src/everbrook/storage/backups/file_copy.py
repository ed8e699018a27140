"""The copy of one file, made of blocks from a source and from earlier copies.

A block from the source is verified when it arrives, a block of an earlier copy when it is read. The file gets its name
when it is complete. An earlier copy is never written to: it may be a hard link to a file of another backup.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from everbrook.storage.api import PinnedFile
from everbrook.storage.backups.backup import Entry
from everbrook.storage.backups.pieces import BLOCK_BYTES, Asked, Piece, State

EMPTY = sha256().hexdigest()
DRAFT = ".copying"


class Source(Protocol):
    """A store that is copied. `pieces` may be called from several threads."""

    def folders(self) -> list[str]:
        """Return the folders of the store."""

    def files(self, folder: str) -> list[PinnedFile]:
        """Return the files of a folder."""

    def pieces(self, asked: Sequence[Asked]) -> list[Piece]:
        """Return the first of the requested pieces: at least one, and as many as fit into a response."""


class Basis(Struct, frozen=True):
    """An earlier copy of a file, which may share blocks with it: its path, and the digests of its blocks."""

    path: Path
    size: int
    blocks: list[str]

    def digest(self, start: int, size: int) -> str:
        """Return the digest of the block at `start`; an empty text if no block of this size begins there."""
        number = start // BLOCK_BYTES
        same = number < len(self.blocks) and min(BLOCK_BYTES, self.size - start) == size
        return self.blocks[number] if same else ""

    def read(self, asked: Asked) -> bytes | None:
        """Return a block, if its bytes still have the requested digest."""
        if self.digest(asked.start, asked.size) != asked.digest:
            return None
        with self.path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), asked.size, asked.start)
        return data if sha256(data).hexdigest() == asked.digest else None

    def holds(self, blocks: Sequence[str]) -> bool:
        """Return whether the bytes of the file have exactly these digests."""
        return list(digests(self.path)) == list(blocks)


class FileCopy:
    """The copy of one file, which takes its blocks in order."""

    def __init__(self, source: Source, file: PinnedFile, path: Path, bases: Sequence[Basis] = ()) -> None:
        self._source = source
        self._file = file
        self._path = path
        self._bases = bases
        self._draft = draft_of(path)
        self._descriptor: int | None = None
        self._blocks: list[str] = []
        self._size = 0
        self._ended = False
        self.gone = False
        self.copied_bytes = 0

    def asked(self) -> Iterator[Asked]:
        for start in range(0, max(self._file.size, 1), BLOCK_BYTES):
            size = min(BLOCK_BYTES, self._file.size - start)
            known = next(filter(None, (basis.digest(start, size) for basis in self._bases)), "")
            yield Asked(self._file.name, start, size, known)

    def take(self, asked: Asked, piece: Piece) -> None:
        """Take the next block. The file may be shorter than listed, if its end was truncated meanwhile."""
        self.gone = self.gone or piece.state is State.GONE
        if self.gone or self._ended:
            return
        # While all blocks are the same, no draft is written: the copy may become a hard link.
        if piece.state is State.SAME and self._descriptor is None:
            self._blocks.append(asked.digest)
            self._size += asked.size
            return
        if self._descriptor is None:
            self._begin()
        given = (piece.data, piece.digest.hex()) if piece.state is State.GIVEN else self._known(asked)
        self._write(*given)
        self._ended = len(given[0]) < asked.size

    def _begin(self) -> None:
        """Begin to write, with the blocks that earlier copies have so far."""
        # Not the old draft: it may be a hard link to a file of an earlier backup, which a write would change.
        self._draft.unlink(missing_ok=True)
        self._descriptor = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        same, self._blocks, self._size = self._blocks, [], 0
        for number, digest in enumerate(same):
            start = number * BLOCK_BYTES
            asked = Asked(self._file.name, start, min(BLOCK_BYTES, self._file.size - start), digest)
            self._write(*self._known(asked))

    def _known(self, asked: Asked) -> tuple[bytes, str]:
        """Return a block of an earlier copy, or of the source if the earlier copy is damaged."""
        for basis in self._bases:
            data = basis.read(asked)
            if data is not None:
                self.copied_bytes -= len(data)
                return data, asked.digest
        (piece,) = self._source.pieces([Asked(asked.name, asked.start, asked.size)])
        self.gone = self.gone or piece.state is State.GONE
        return piece.data, piece.digest.hex()

    def _write(self, data: bytes, digest: str) -> None:
        rest = memoryview(data)
        while rest and self._descriptor is not None:
            rest = rest[os.write(self._descriptor, rest) :]
        self._size += len(data)
        self.copied_bytes += len(data)
        self._blocks.append(digest)

    def finish(self) -> Entry | None:
        """Rename the draft. Returns None if the source no longer has the file."""
        if self._descriptor is None and not self.gone and not self._link():
            self._begin()
        written = self._descriptor is not None
        self.close()
        if self.gone:
            self._draft.unlink(missing_ok=True)
            return None
        if written:
            self._draft.rename(self._path)
        stamp = self._file.stamp if self._size == self._file.size else ""
        return Entry(self._file.name, self._size, self._blocks if self._size else [], stamp)

    def _link(self) -> bool:
        """Link an earlier copy with the same bytes. It is verified first, so that damage does not spread."""
        for basis in self._bases:
            if basis.size == self._size and basis.holds(self._blocks):
                link(basis.path, self._path)
                return True
        return False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def draft_of(path: Path) -> Path:
    """Return the path of a copy until it is complete. A draft of a killed run has the first blocks of the file."""
    return path.with_name(path.name + DRAFT)


def digests(path: Path) -> Iterator[str]:
    with path.open("rb", buffering=0) as file:
        if not path.stat().st_size:
            yield EMPTY
        while block := file.read(BLOCK_BYTES):
            yield sha256(block).hexdigest()


def link(path: Path, target: Path) -> None:
    """Make a hard link to a file, replacing a file of that name."""
    if target.exists():
        if target.samefile(path):
            return
        target.unlink()
    try:
        target.hardlink_to(path)
    except OSError:
        # Not every file system has hard links.
        shutil.copyfile(path, target)
