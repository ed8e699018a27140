"""Checking the journal's files: headers, checksums, numbers without a gap.

A number that is missing is damage if something proves that it was on the disk: a later record that says so, a file
that was begun after it, or the shelf. Otherwise a crash tore its group before anybody was told of it, and that is fine.
"""

from pathlib import Path

from msgspec import Struct

from everbrook.storage.check import Notebook
from everbrook.storage.record import LOG_HEADER, Record, parse_log_header, records


class Log(Struct):
    """A file of the journal, and what can be read of it."""

    path: Path
    size: int
    first: int
    records: list[Record]


class Placed(Struct, frozen=True):
    """A record and the file that it is in."""

    path: Path
    record: Record


def read_journal(folder: Path, applied: int, notebook: Notebook) -> list[Placed]:
    """Check every file. Gives the records that count, those after `applied`."""
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    logs = [log for path in names if (log := _read_log(path, notebook))]
    known = max([applied, *(log.first - 1 for log in logs), *(found.synced for log in logs for found in log.records)])
    counting: list[Placed] = []
    expected: int | None = None
    for log in logs:
        notebook.at(log.path)
        expected = _check_first(log, expected, applied, notebook)
        position = LOG_HEADER.size
        for found in log.records:
            if found.number != expected and expected > known:
                break
            _check_next(position, found, expected, notebook)
            if found.number > applied:
                counting.append(Placed(log.path, found))
            expected, position = found.number + 1, found.end
        _check_end(log, position, torn=log is logs[-1] and expected > known, notebook=notebook)
    return counting


def _read_log(path: Path, notebook: Notebook) -> Log | None:
    notebook.at(path)
    data = path.read_bytes()
    notebook.advance(len(data))
    if path.suffix != ".log":
        notebook.damage("was set aside when a server found it damaged")
        return None
    header = parse_log_header(data)
    if header is None and len(data) <= LOG_HEADER.size:
        notebook.remark(f"{path.name} was begun when the server ended; it holds nothing yet")
        return None
    if header is None:
        notebook.damage("the header of the file does not verify; no record in it can be read", "at byte 0")
        return None
    salt, first = header
    if path.stem.rpartition("-")[2] != f"{first:020d}":
        notebook.damage(f"its header says that it begins with record {first}", "at byte 8")
    return Log(path, len(data), first, list(records(data, salt)))


def _check_first(log: Log, expected: int | None, applied: int, notebook: Notebook) -> int:
    """Give the number that the first record of a file must have."""
    if expected is None:
        if log.first > applied + 1:
            notebook.damage(f"records {applied + 1} to {log.first - 1} are nowhere", "before byte 0")
        return log.first
    if expected < log.first:
        # What is folded may be missing: a crash may leave any of the files that were being removed.
        lost = max(expected, applied + 1)
        if lost < log.first:
            notebook.damage(f"records {lost} to {log.first - 1} are missing before this file", "before byte 0")
        return log.first
    return expected


def _check_next(position: int, found: Record, expected: int, notebook: Notebook) -> None:
    if position < found.position:
        notebook.damage(f"{found.position - position} bytes are no record", f"at byte {position}")
    if found.number > expected:
        notebook.damage(f"records {expected} to {found.number - 1} are missing", f"at byte {position}")
    elif found.number < expected:
        notebook.damage(f"record {found.number} comes again after {expected - 1}", f"at byte {found.position}")
    if not found.synced < found.number:
        notebook.damage(f"record {found.number} claims to follow {found.synced}", f"at byte {found.position}")


def _check_end(log: Log, position: int, *, torn: bool, notebook: Notebook) -> None:
    left = log.size - position
    if not left:
        return
    if not torn:
        notebook.damage(f"{left} bytes are no record", f"at byte {position}")
        return
    notebook.remark(
        f"{log.path.name} ends with {left} bytes of a write that a crash cut off, from byte {position} on; "
        "nobody was told of it, and the next start removes it"
    )
