"""Opening a store: what its catalogue says, or if that is lost what the logs say; and clearing away what is left over.

Everything here can be done again from the start, wherever a crash ends it.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from everbrook.storage.disk import Disk
from everbrook.storage.files.catalogue import (
    GENERATION_SHIFT,
    CatalogueFile,
    Contents,
    catalogue_files,
    read_catalogue,
)
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.layout import Layout, parse_segment_name
from everbrook.storage.files.logs import Logs

logger = logging.getLogger(__name__)


def recover(disk: Disk, folder: Path, layout: Layout, logs: Logs) -> tuple[Contents, list[Damage]]:
    """Read the catalogue, or make its contents out of the logs."""
    files = catalogue_files(disk, folder)
    if not files and not disk.names(layout.streams):
        return Contents(Entries()), []
    damages: list[Damage] = []
    if files:
        try:
            return read_catalogue(disk, files[-1]), []
        except Damage as damage:
            logger.error("%s: the catalogue is made anew from the logs", damage)  # noqa: TRY400 - the place says all
            damages.append(damage)
            _set_aside(disk, files[-1])
    return _rebuild(disk, layout, logs, files, damages), damages


def _set_aside(disk: Disk, file: CatalogueFile) -> None:
    """Keep a damaged file, for whoever may read more out of it than we can."""
    disk.rename(file.path, file.path.with_suffix(".damaged"))


def _rebuild(disk: Disk, layout: Layout, logs: Logs, files: list[CatalogueFile], damages: list[Damage]) -> Contents:
    """Enter every stream that has a log. Where two have one name, the later has taken it over."""
    contents = Contents(Entries(), generation=max((file.generation for file in files), default=0), clean=False)
    for incarnation in sorted({incarnation for _, incarnation, _ in stored_segments(disk, layout)}):
        try:
            log = logs.open(incarnation)
        except Damage as damage:
            logger.error("%s: its stream is lost", damage)  # noqa: TRY400 - the place says all
            damages.append(damage)
            continue
        contents.entries.enter(log.state.head.identity)
        contents.generation = max(contents.generation, log.number >> GENERATION_SHIFT)
    return contents


def stored_segments(disk: Disk, layout: Layout) -> Iterator[tuple[Path, int, int]]:
    """Give every segment that is there: its path, its stream and its number."""
    for bucket in disk.names(layout.streams):
        for name in disk.names(layout.streams / bucket):
            parsed = parse_segment_name(name)
            if parsed:
                yield layout.streams / bucket / name, *parsed


def sweep(disk: Disk, layout: Layout, entries: Entries) -> set[Path]:
    """Remove the segments of streams that are not there. Gives the folders they were in."""
    present = set(entries.incarnations())
    folders: set[Path] = set()
    for path, incarnation, _ in stored_segments(disk, layout):
        if incarnation not in present:
            disk.remove(path)
            folders.add(path.parent)
    return folders
