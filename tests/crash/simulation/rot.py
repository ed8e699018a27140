"""Damage to the journal of a store that a crash left: to a record that a seal or a later one proves.

A torn write is cut off without a word. This must not be: whoever opens the store has to be told.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from everbrook.storage.journal_scan import LogFile, parse_log_file
from everbrook.storage.manifest import JOURNAL, MANIFEST, parse_manifest
from everbrook.storage.record import Record
from tests.crash.simulation.image import Image
from tests.crash.simulation.modes import DATA_FOLDER

Damaging = Callable[[dict[Path, bytes], Path, Record, Random], None]

_FOLDER = Path(DATA_FOLDER)


def rotten(image: Image, proven: range, chance: Random) -> tuple[Image, str] | None:
    """Damage a record with one of the proven numbers, if the journal has one. Gives what was done, in words too."""
    places = _places(image)
    numbers = sorted(places.keys() & set(proven))
    if not numbers:
        return None
    # The last one is proven by a seal alone.
    number = numbers[-1] if chance.random() < 0.5 else chance.choice(numbers)
    path, record = places[number]
    files = dict(image.files)
    what = chance.choice(list(_DAMAGES))
    _DAMAGES[what](files, path, record, chance)
    return Image(image.folders, files), f"record {number} at byte {record.position} of {path.name}: {what}"


def _places(image: Image) -> dict[int, tuple[Path, Record]]:
    """Find the records of a journal."""
    salt = parse_manifest(image.files[_FOLDER / MANIFEST]).salt
    found = [parse_log_file(path) for path in image.files if path.parent == _FOLDER / JOURNAL]
    places: dict[int, tuple[Path, Record]] = {}
    for file in sorted(filter(None, found), key=_use):
        places = {number: place for number, place in places.items() if number < file.first}
        for item in file.scan(image.files[file.path], salt):
            if isinstance(item, Record) and not item.seal:
                places[item.number] = (file.path, item)
    return places


def _use(file: LogFile) -> int:
    return file.use


def _flip_a_bit(files: dict[Path, bytes], path: Path, record: Record, chance: Random) -> None:
    log = bytearray(files[path])
    log[chance.randrange(record.position, record.end)] ^= 1 << chance.randrange(8)
    files[path] = bytes(log)


def _zero_it(files: dict[Path, bytes], path: Path, record: Record, _chance: Random) -> None:
    log = bytearray(files[path])
    log[record.position : record.end] = bytes(record.end - record.position)
    files[path] = bytes(log)


def _cut_the_file(files: dict[Path, bytes], path: Path, record: Record, chance: Random) -> None:
    files[path] = files[path][: chance.randrange(record.position, record.end)]


def _remove_the_file(files: dict[Path, bytes], path: Path, _record: Record, _chance: Random) -> None:
    del files[path]


_DAMAGES: dict[str, Damaging] = {
    "a bit was flipped": _flip_a_bit,
    "it was zeroed": _zero_it,
    "its file was cut": _cut_the_file,
    "its file was removed": _remove_the_file,
}
