"""Opening a store: what its catalogue says, or if that is lost what the logs say; and clearing away what is left over.

Everything here can be done again from the start, wherever a crash ends it.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
from everbrook.storage.files.discarding import retained_from
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.handles import Syncer
from everbrook.storage.files.layout import Layout, parse_segment_name
from everbrook.storage.files.log import StreamLog
from everbrook.storage.files.logs import Logs

logger = logging.getLogger(__name__)

_FIRST = "-00000000.log"


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
    logs.beginnings = contents.entries.beginnings
    segments: dict[int, dict[int, Path]] = {}
    for path, incarnation, number in stored_segments(disk, layout):
        segments.setdefault(incarnation, {})[number] = path
    for incarnation, paths in sorted(segments.items()):
        logs.locate(incarnation, sorted(paths))
        with _collecting(damages):
            log = _open(disk, logs, contents.entries, incarnation, paths.values())
            contents.generation = max(contents.generation, log.number >> GENERATION_SHIFT)
            contents.entries.enter(log.state.head.identity)
            logs.require_retained(incarnation, log)
    # Which of it was written in the fast mode is not known any more.
    contents.doubts = Doubts(logs=contents.generation + 1)
    return contents


@contextmanager
def _collecting(damages: list[Damage]) -> Iterator[None]:
    """Report damage and go on."""
    try:
        yield
    except Damage as damage:
        logger.error("%s", damage)  # noqa: TRY400 - the place says all
        damages.append(damage)


def _open(disk: Disk, logs: Logs, entries: Entries, incarnation: int, paths: Iterable[Path]) -> StreamLog:
    """Open a log. Enter a damaged stream if its name is known, so that who asks for it is told; nothing is removed."""
    try:
        return logs.open(incarnation)
    except Damage:
        identity = logs.identity(incarnation)
        if identity:
            entries.enter(identity)
        else:
            for path in paths:
                _set_aside(disk, path)
        raise


def stored_segments(disk: Disk, layout: Layout) -> Iterator[tuple[Path, int, int]]:
    """Give every segment that is there: its path, its stream and its number."""
    for bucket in disk.names(layout.streams):
        for name in disk.names(layout.streams / bucket):
            parsed = parse_segment_name(name)
            if parsed:
                yield layout.streams / bucket / name, *parsed


def sweep(disk: Disk, layout: Layout, entries: Entries, logs: Logs) -> set[Path]:
    """Remove the segments of streams that are not there, and those that streams had let go of.

    Gives the folders they were in.
    """
    present = {f"{incarnation:016x}" for incarnation in entries.incarnations()}
    folders: set[Path] = set()
    for bucket in disk.names(layout.streams):
        folder = layout.streams / bucket
        for key, names in _names_by_stream(disk.names(folder)).items():
            # Most streams have only their first segment, and there may be very many of them.
            if key in present and names == [key + _FIRST]:
                continue
            gone = _let_go(int(key, 16), names, entries, logs) if key in present else names
            for name in filter(parse_segment_name, gone):
                disk.remove(folder / name)
                folders.add(folder)
    return folders


def _names_by_stream(names: Iterable[str]) -> dict[str, list[str]]:
    """Part the names of files by what they begin with."""
    parted: dict[str, list[str]] = {}
    for name in names:
        parted.setdefault(name[:16], []).append(name)
    return parted


def _let_go(incarnation: int, names: list[str], entries: Entries, logs: Logs) -> list[str]:
    """Give the segments that a stream does not have any more. If it can't be said for sure, none is."""
    segments = {parsed[1]: name for name in names if (parsed := parse_segment_name(name))}
    numbers = sorted(segments)
    first = logs.locate(incarnation, numbers) if numbers else 0
    if not numbers or first == numbers[0]:
        return []
    try:
        log = logs.open(incarnation)
        needed = logs.start(incarnation, log, first) > retained_from(log.state.head, entries, logs.identity)
    except Damage:
        return []
    return [] if needed else [name for number, name in segments.items() if number < first]
