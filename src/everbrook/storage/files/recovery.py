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
    Doubts,
    catalogue_files,
    read_catalogue,
)
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.handles import Syncer
from everbrook.storage.files.layout import Layout, parse_segment_name
from everbrook.storage.files.logs import Logs

logger = logging.getLogger(__name__)


def recover(disk: Disk, folder: Path, layout: Layout, logs: Logs, syncer: Syncer) -> tuple[Contents, list[Damage]]:
    """Read the catalogue, or make its contents out of the logs."""
    files = catalogue_files(disk, folder)
    if not files and not disk.names(layout.streams):
        return Contents(Entries()), []
    damages: list[Damage] = []
    if files:
        try:
            contents = read_catalogue(disk, files[-1])
        except Damage as damage:
            logger.error("%s: the catalogue is made anew from the logs", damage)  # noqa: TRY400 - the place says all
            damages.append(damage)
            _set_aside(disk, files[-1].path)
        else:
            _settle(disk, files[-1].path, syncer)
            return contents, []
    return _rebuild(disk, layout, logs, files, damages), damages


def _settle(disk: Disk, path: Path, syncer: Syncer) -> None:
    """Sync a catalogue before anything is removed or done again on its word.

    Who wrote it may have ended before its sync. If power then failed, its word would be gone, and the logs with it.
    """
    file = disk.open(path)
    try:
        syncer.sync([file], always=True)
        syncer.sync(folders=[path.parent], always=True)
    finally:
        file.close()


def _set_aside(disk: Disk, path: Path) -> None:
    """Keep a damaged file, for whoever may read more out of it than we can."""
    disk.rename(path, path.with_suffix(".damaged"))


def _rebuild(disk: Disk, layout: Layout, logs: Logs, files: list[CatalogueFile], damages: list[Damage]) -> Contents:
    """Enter every stream that has a log. Where two have one name, the later has taken it over."""
    contents = Contents(Entries(), generation=max((file.generation for file in files), default=0), clean=False)
    segments: dict[int, list[Path]] = {}
    for path, incarnation, _ in stored_segments(disk, layout):
        segments.setdefault(incarnation, []).append(path)
    for incarnation, paths in sorted(segments.items()):
        try:
            log = logs.open(incarnation)
        except Damage as damage:
            logger.error("%s", damage)  # noqa: TRY400 - the place says all
            damages.append(damage)
            _keep_damaged(disk, logs, contents.entries, incarnation, paths)
        else:
            contents.entries.enter(log.state.head.identity)
            contents.generation = max(contents.generation, log.number >> GENERATION_SHIFT)
    # Which of it was written in the fast mode is not known any more.
    contents.doubts = Doubts(logs=contents.generation + 1)
    return contents


def _keep_damaged(disk: Disk, logs: Logs, entries: Entries, incarnation: int, paths: list[Path]) -> None:
    """Enter a damaged stream if its name is known; then who asks for it is told. Nothing of it is removed."""
    identity = logs.identity(incarnation)
    if identity:
        entries.enter(identity)
        return
    for path in paths:
        _set_aside(disk, path)


def stored_segments(disk: Disk, layout: Layout) -> Iterator[tuple[Path, int, int]]:
    """Give every segment that is there: its path, its stream and its number."""
    for bucket in disk.names(layout.streams):
        for name in disk.names(layout.streams / bucket):
            parsed = parse_segment_name(name)
            if parsed:
                yield layout.streams / bucket / name, *parsed


def sweep(disk: Disk, layout: Layout, entries: Entries) -> set[Path]:
    """Remove the segments of streams that are not there. Gives the folders they were in."""
    present = {f"{incarnation:016x}" for incarnation in entries.incarnations()}
    folders: set[Path] = set()
    for bucket in disk.names(layout.streams):
        folder = layout.streams / bucket
        for name in disk.names(folder):
            if name[:16] not in present and parse_segment_name(name):
                disk.remove(folder / name)
                folders.add(folder)
    return folders
