"""Deliberate bugs of the journal: what is written to it, and what recovery makes of it."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from everbrook.protocol import Change, Write
from everbrook.storage import DurableStorage, journal, journal_scan
from everbrook.storage.codec import pack_edit
from everbrook.storage.disk import Disk, File
from everbrook.storage.durable import _entry
from everbrook.storage.journal import Journal
from everbrook.storage.journal_scan import LogFile, Needed, Recovered, _Reading, read_journal
from everbrook.storage.record import LogScan, Record, Unreadable
from tests.crash.bugs.bug import ALL, BOTH, DURABLE, Bug, without_syncing, write_otherwise


def _take_bodies_unchecked(patch: pytest.MonkeyPatch) -> None:
    really_at = LogScan._at

    def at(scan: LogScan, position: int) -> Record | Unreadable | None:
        found = really_at(scan, position)
        if isinstance(found, Unreadable):
            body = scan._log[found.end - _body_bytes(scan, position) : found.end]
            return Record(found.position, found.end, found.number, 0, 0, body)
        return found

    patch.setattr(LogScan, "_at", at)


def _body_bytes(scan: LogScan, position: int) -> int:
    return int.from_bytes(scan._log[position + 12 : position + 16], "little")


def _go_on_behind_a_torn_record(patch: pytest.MonkeyPatch) -> None:
    """Take every record that can be read, whatever is missing between them."""
    really_result = _Reading.result

    def result(reading: _Reading, folder: Path, missing: list[int], last_use: int) -> Recovered:
        recovered = really_result(reading, folder, missing, last_use)
        records = [record for number, record in sorted(reading._records.items()) if number > reading._applied]
        return replace(recovered, records=records, last=max([recovered.last, *(each.number for each in records)]))

    patch.setattr(_Reading, "result", result)


def _bring_back_what_was_superseded(patch: pytest.MonkeyPatch) -> None:
    """Take what a file has behind the first number of the file that was begun after a crash."""
    really_take = _Reading.take

    def take(reading: _Reading, file: LogFile, log: bytes, salt: int) -> None:
        records, bodies = dict(reading._records), dict(reading._bodies)
        really_take(reading, file, log, salt)
        reading._records = {**records, **reading._records}
        reading._bodies = {**bodies, **reading._bodies}

    patch.setattr(_Reading, "take", take)


def _leave_what_was_refused(patch: pytest.MonkeyPatch) -> None:
    _refuse(patch, lambda _file, _position, _data: None)


def _leave_what_was_refused_to_chance(patch: pytest.MonkeyPatch) -> None:
    _refuse(patch, lambda file, position, data: without_syncing(file.write_at, position, data))


def _refuse(patch: pytest.MonkeyPatch, overwrite: object) -> None:
    really_write = Journal._write

    class Refusing:
        """A file whose zeros are written otherwise."""

        def __init__(self, file: File) -> None:
            self._file = file
            self._failed = False

        def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
            if self._failed:
                overwrite(self._file, position, data)  # type: ignore[operator]
                return
            self._failed = True
            self._file.write_at(position, data, sync=sync)

    patch.setattr(Journal, "_write", lambda journal, file, data: really_write(journal, Refusing(file), data))  # type: ignore[arg-type]


def _delete_without_a_record(patch: pytest.MonkeyPatch) -> None:
    def pack(change: Change) -> bytes:
        return b"".join(pack_edit(edit) for edit in change if isinstance(edit, Write)) or b"\0"[:0]

    patch.setattr("everbrook.storage.durable.pack_change", pack)


def _take_joint_changes_apart(patch: pytest.MonkeyPatch) -> None:
    def persist(storage: DurableStorage, group: Sequence[Change]) -> None:
        storage._checkpointer.wait_for_room()
        entries = [_entry((edit,)) for change in group for edit in change]
        storage._journal.append(storage._journal.frame(entries, storage._journal.last))

    patch.setattr(DurableStorage, "persist", persist)


def _forget_soft_deletion(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, head=replace(write.head, deleted=False)))


def _forget_producers(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, producer=None, producer_id=None))


def _forget_closure(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, head=replace(write.head, closed=False)))


def _use_one_seed(patch: pytest.MonkeyPatch) -> None:
    """A recycled file has the seed that it had before."""
    for module in (journal, journal_scan):
        patch.setattr(module, "seed_of", lambda salt, _first, _use: zlib.crc32(salt.to_bytes(8, "little")))


def _count_uses_from_one_again(patch: pytest.MonkeyPatch) -> None:
    def read(disk: Disk, folder: Path, salt: int, applied: int, needed: Needed) -> Recovered:
        return replace(read_journal(disk, folder, salt, applied, needed), last_use=0)

    patch.setattr("everbrook.storage.durable.read_journal", read)


def _write_no_seal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "seal", lambda _journal: None)


def _leave_seals_to_chance(patch: pytest.MonkeyPatch) -> None:
    really_seal = Journal.seal
    patch.setattr(Journal, "seal", lambda journal: without_syncing(really_seal, journal))


def _remove_before_the_journal_is_settled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "settle", lambda _journal: None)


JOURNAL_BUGS = {
    "take bodies unchecked": Bug(DURABLE, _take_bodies_unchecked),
    "go on behind a torn record": Bug(DURABLE, _go_on_behind_a_torn_record, seed=2008),
    "bring back what was superseded": Bug(
        ("file-fast", "file-fast-and-durable"), _bring_back_what_was_superseded, seed=2042
    ),
    "leave what was refused": Bug(BOTH, _leave_what_was_refused),
    "leave what was refused to chance": Bug(("acid",), _leave_what_was_refused_to_chance, seed=2040),
    "delete without a record": Bug(BOTH, _delete_without_a_record),
    "take changes over several streams apart": Bug(BOTH, _take_joint_changes_apart),
    "forget soft deletion": Bug(BOTH, _forget_soft_deletion),
    "keep producers apart from their data": Bug(BOTH, _forget_producers),
    "forget closure": Bug(BOTH, _forget_closure),
    "use one seed for every file": Bug(ALL, _use_one_seed),
    "count uses from one again": Bug(BOTH, _count_uses_from_one_again),
    "write no seal": Bug(ALL, _write_no_seal, seed=2064),
    "leave seals to chance": Bug(DURABLE, _leave_seals_to_chance, seed=2109),
    "remove before the journal is settled": Bug(("file-fast",), _remove_before_the_journal_is_settled),
}
