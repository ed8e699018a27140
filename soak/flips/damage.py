"""The ways to damage the files of a store: one file, or two that are swapped."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct

SECTOR_BYTES = 512
PAGE_BYTES, HEADER_BYTES = 4096, 48
TRIES = 6
MANIFEST, BASE, JOURNAL, SPARE, SEGMENT, BLOB, OTHER = (
    "manifest",
    "base",
    "journal",
    "spare",
    "segment",
    "blob",
    "other",
)
# How often each kind is chosen: most of what can go wrong is in the base and in the journal.
KINDS = {MANIFEST: 1, BASE: 8, JOURNAL: 8, SPARE: 1, SEGMENT: 6, BLOB: 3, OTHER: 1}
LOCKS = ("lock", "lock.mdb")


class Damaging(Struct, frozen=True):
    """What was done to a store."""

    kind: str
    """Which kind of file."""
    way: str
    names: tuple[str, ...]
    """The files, below the folder of the store."""

    def __str__(self) -> str:
        return f"{self.way}: {' and '.join(self.names)}"


def files_of(folder: Path) -> list[Path]:
    """Give the files of a store that hold something of it."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in LOCKS)


def kind_of(path: Path) -> str:
    """Give the kind of a file of a store."""
    if path.name == "manifest.json":
        return MANIFEST
    if path.name == "data.mdb":
        return BASE
    if path.name == "spare.log":
        return SPARE
    if path.parent.name == "journal":
        return JOURNAL
    return {".log": SEGMENT, ".blob": BLOB}.get(path.suffix, OTHER)


def damage_store(folder: Path, older: Path, random: Random, only: tuple[str, ...] = ()) -> Damaging:
    """Damage one of the files of a store. `older` has some of them as they were before, `only` says which kinds."""
    while True:
        by_kind: dict[str, list[Path]] = {}
        for path in files_of(folder):
            by_kind.setdefault(kind_of(path), []).append(path)
        kinds = sorted(by_kind.keys() & set(only) or by_kind)
        kind = random.choices(kinds, [KINDS[each] for each in kinds])[0]
        path = random.choice(by_kind[kind])
        way = random.choices(list(WAYS), [weight for _, weight in WAYS.values()])[0]
        other = random.choice(by_kind[kind])
        former = older / path.relative_to(folder)
        if way == SWAPPED:
            if other.read_bytes() == path.read_bytes():
                continue
            draft = path.with_suffix(".draft")
            path.rename(draft)
            other.rename(path)
            draft.rename(other)
            return Damaging(kind, way, (_name(path, folder), _name(other, folder)))
        if way == OUTDATED:
            if not former.is_file() or former.read_bytes() == path.read_bytes():
                continue
            shutil.copyfile(former, path)
        else:
            before = path.read_bytes()
            WAYS[way][0](path, before, random)
            if path.exists() and path.read_bytes() == before:
                continue
        return Damaging(kind, way, (_name(path, folder),))


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))


def _place(data: bytes, random: Random) -> int:
    """Choose a byte: mostly one that something was written to, and not one of the zeros between and behind."""
    place = random.randrange(len(data))
    for _ in range(TRIES):
        if any(data[max(0, place - 8) : place + 8]):
            break
        place = random.randrange(len(data))
    return place


def _flip(path: Path, data: bytes, random: Random) -> None:
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8)) if data else 0):
        damaged[_place(data, random)] ^= 1 << random.randrange(8)
    path.write_bytes(damaged)


def _flip_header(path: Path, data: bytes, random: Random) -> None:
    """Flip a bit where LMDB has the header of a page, and the places of its rows."""
    damaged = bytearray(data)
    if data:
        page = _place(data, random) // PAGE_BYTES * PAGE_BYTES
        damaged[min(len(data) - 1, page + random.randrange(HEADER_BYTES))] ^= 1 << random.randrange(8)
    path.write_bytes(damaged)


def _zero(path: Path, data: bytes, random: Random) -> None:
    _overwrite(path, data, bytes(SECTOR_BYTES), random)


def _scramble(path: Path, data: bytes, random: Random) -> None:
    _overwrite(path, data, random.randbytes(SECTOR_BYTES), random)


def _overwrite(path: Path, data: bytes, sector: bytes, random: Random) -> None:
    start = _place(data, random) // SECTOR_BYTES * SECTOR_BYTES if data else 0
    end = min(len(data), start + SECTOR_BYTES)
    path.write_bytes(data[:start] + sector[: end - start] + data[end:])


def _cut(path: Path, data: bytes, random: Random) -> None:
    size = random.choice((0, random.randrange(len(data)), _place(data, random))) if data else 0
    path.write_bytes(data[:size])


def _delete(path: Path, _data: bytes, _random: Random) -> None:
    path.unlink()


def _renamed(_path: Path, _data: bytes, _random: Random) -> None:
    raise NotImplementedError


SWAPPED, OUTDATED = "swapped", "an older copy"
WAYS: dict[str, tuple[Callable[[Path, bytes, Random], None], int]] = {
    "bits flipped": (_flip, 12),
    "a bit flipped at the start of a page": (_flip_header, 3),
    "a sector of zeros": (_zero, 4),
    "a sector of random bytes": (_scramble, 4),
    "cut off": (_cut, 3),
    "deleted": (_delete, 2),
    SWAPPED: (_renamed, 2),
    OUTDATED: (_renamed, 2),
}
