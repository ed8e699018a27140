"""Deliberate bugs, kept to prove that the crash tests can fail. Each is switched on by itself and must be caught.

Some only forget to do something to the disk; others change the code as a slip of the pen could.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from everbrook.engine import Engine
from everbrook.engine.committer import Committer, Parked
from everbrook.engine.executing import Executing
from everbrook.protocol import Append, Change, Drop, Duplicate, Edit, Outcome, Write
from everbrook.storage import AcidStorage, FileStorage, Storage, record
from everbrook.storage.acid.journal import Journal
from everbrook.storage.acid.recent import Recent
from everbrook.storage.acid.shard import Fold
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.disk import Disk, File
from everbrook.storage.files.catalogue import GENERATION_SHIFT, is_joint, pack_commit
from everbrook.storage.files.doubt import Doubt
from everbrook.storage.files.reader import Reader
from everbrook.storage.files.writer import Numbered, Writer
from everbrook.storage.manifest import MANIFEST, Manifest
from everbrook.storage.packing import pack_edit
from everbrook.storage.record import Record
from tests.crash.modes import MODES
from tests.crash.operations import Cut, FolderSynced, Operation
from tests.crash.recorder import Forgets, RecordingDisk, RecordingFile, forgets_nothing

Result = TypeVar("Result")
ALL = tuple(MODES)
DURABLE = tuple(name for name, mode in MODES.items() if mode.durable)
ACID = ("acid",)
FILES = ("file-durable", "file-fast")


def sows_nothing(_patch: pytest.MonkeyPatch) -> None:
    pass


class Bug(Struct, frozen=True):
    """Something that must not be wrong, and what makes it wrong."""

    modes: Sequence[str]
    sow: Callable[[pytest.MonkeyPatch], None] = sows_nothing
    forgets: Forgets = forgets_nothing
    level: str = "storage"


def _syncs_no_folder(operation: Operation) -> bool:
    return isinstance(operation, FolderSynced)


def _syncs_no_journal_folder(operation: Operation) -> bool:
    return isinstance(operation, FolderSynced) and operation.path.name == "journal"


def _syncs_no_shard_folder(operation: Operation) -> bool:
    return isinstance(operation, FolderSynced) and operation.path.name.startswith("shard-")


def _syncs_no_log_folder(operation: Operation) -> bool:
    return isinstance(operation, FolderSynced) and "streams" in operation.path.parts


def _does_not_sync_its_own_name(operation: Operation) -> bool:
    return operation == FolderSynced(Path())


def without_syncing(call: Callable[..., Result], *args: object) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordingFile, "sync", lambda _file: None)
        return call(*args)


def _persist_without_sync(patch: pytest.MonkeyPatch, careless: Callable[[Edit], bool]) -> None:
    """Let the groups that hold an edit of a certain kind be acknowledged before they are on the disk."""
    for storage_class in (AcidStorage, FileStorage):
        really_persist: Callable[..., None] = storage_class.persist

        def persist(
            storage: Storage, group: Sequence[Change], really_persist: Callable[..., None] = really_persist
        ) -> None:
            if any(careless(edit) for change in group for edit in change):
                without_syncing(really_persist, storage, group)
            else:
                really_persist(storage, group)

        patch.setattr(storage_class, "persist", persist)


def _acknowledge_before_sync(patch: pytest.MonkeyPatch) -> None:
    _persist_without_sync(patch, lambda _edit: True)


def _delete_without_sync(patch: pytest.MonkeyPatch) -> None:
    _persist_without_sync(patch, lambda edit: isinstance(edit, Drop) or edit.head.deleted)


def _delete_without_a_record(patch: pytest.MonkeyPatch) -> None:
    def pack(change: Change) -> bytes:
        return b"".join(pack_edit(edit) for edit in change if isinstance(edit, Write))

    patch.setattr("everbrook.storage.acid.engine.pack_change", pack)
    patch.setattr("everbrook.storage.files.writer._enters", lambda change: isinstance(change[-1], Write))


def write_otherwise(patch: pytest.MonkeyPatch, turned: Callable[[Write], Write]) -> None:
    """Let every log have something else than what was decided."""

    def pack(edit: Edit) -> bytes:
        return pack_edit(turned(edit) if isinstance(edit, Write) else edit)

    patch.setattr("everbrook.storage.acid.engine.pack_change", lambda change: b"".join(map(pack, change)))
    patch.setattr("everbrook.storage.files.pens.pack_edit", pack)


def _forget_soft_deletion(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, head=replace(write.head, deleted=False)))


def _forget_producers(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, producer=None, producer_id=None))


def _forget_closure(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, head=replace(write.head, closed=False)))


def _checksum_the_header_only(patch: pytest.MonkeyPatch) -> None:
    """Of the two calls for a record only the one for its fields counts."""
    fields = record.CHECKED.size

    def crc32(data: bytes, start: int = 0) -> int:
        return start if start and len(data) != fields else zlib.crc32(data, start)

    patch.setattr(record, "zlib", SimpleNamespace(crc32=crc32))


def _go_on_behind_a_torn_record(patch: pytest.MonkeyPatch) -> None:
    def records(log: bytes, salt: int) -> Iterator[Record]:
        return (replace(found, synced=2**63) for found in record.records(log, salt))

    def record_at_or_after(log: bytes, position: int, salt: int) -> Record | None:
        while position >= 0:
            if found := record.record_at(log, position, salt):
                return found
            position = log.find(record.MAGIC, position + 1)
        return None

    patch.setattr("everbrook.storage.acid.journal.records", records)
    patch.setattr("everbrook.storage.files.log.record_at", record_at_or_after)


def _leave_what_was_torn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordingFile, "truncate", lambda _file, _size: None)


def _leave_what_was_refused_to_chance(patch: pytest.MonkeyPatch) -> None:
    """A file that was cut back is not synced."""
    really_sync = RecordingFile.sync

    def sync(file: RecordingFile) -> None:
        if not isinstance(file.disk.tape.operations[-1], Cut):
            really_sync(file)

    patch.setattr(RecordingFile, "sync", sync)


def _build_on_what_only_memory_has(patch: pytest.MonkeyPatch) -> None:
    really_recover = Journal.recover
    patch.setattr(Journal, "recover", lambda *args: without_syncing(really_recover, *args))
    patch.setattr(Doubt, "settle", lambda *_args: None)


def _enter_a_stream_before_its_log(patch: pytest.MonkeyPatch) -> None:
    really_write, really_enter = Writer._write_logs, Writer._enter

    def write_logs(writer: Writer, batch: list[Numbered]) -> None:
        entered = [(number, pack_commit(change)) for number, change in batch if not is_joint(change)]
        really_enter(writer, entered)
        really_write(writer, batch)

    patch.setattr(Writer, "_write_logs", write_logs)
    patch.setattr("everbrook.storage.files.writer._enters", lambda _change: False)


def _take_joint_changes_apart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("everbrook.storage.files.writer.is_joint", lambda _change: False)


def _use_numbers_again(patch: pytest.MonkeyPatch) -> None:
    """Each start counts on from its generation alone, so that two starts give the same numbers."""

    def counting_low(really_begin: Callable[..., None]) -> Callable[..., None]:
        def begin(part: object, *args: object) -> None:
            really_begin(part, *(_low(arg) if isinstance(arg, int) else arg for arg in args))

        return begin

    for part in (Writer, Reader):
        patch.setattr(part, "__init__", counting_low(part.__init__))


def _low(number: int) -> int:
    return number >> GENERATION_SHIFT or number


def _begin_a_file_that_is_there_already(patch: pytest.MonkeyPatch) -> None:
    """Start-up takes the first name again, whatever it holds."""
    really_create = RecordingDisk.create

    def create(disk: RecordingDisk, path: Path) -> File:
        if path.parent.name == "journal":
            path = path.with_name(f"journal-{1:020d}.log")
            if path.name in disk.names(path.parent):
                disk.remove(path)
        return really_create(disk, path)

    patch.setattr(RecordingDisk, "create", create)


def _cut_the_journal_first(patch: pytest.MonkeyPatch) -> None:
    really_roll = Journal.roll

    def roll(journal: Journal) -> list[Path]:
        ended = really_roll(journal)
        journal.remove(ended)
        return ended

    patch.setattr(Journal, "roll", roll)


def _cut_all_of_the_journal(patch: pytest.MonkeyPatch) -> None:
    """What was written since the fold began counts as folded too."""
    really_recover, really_fold = Journal.recover, Shelf.fold
    opened: list[Journal] = []

    def recover(journal: Journal, applied: int) -> list[Record]:
        opened[:] = [journal]
        return really_recover(journal, applied)

    def fold(shelf: Shelf, recent: Recent, _number: int, damaged: set[int]) -> None:
        really_fold(shelf, recent, opened[0].last, damaged)

    patch.setattr(Journal, "recover", recover)
    patch.setattr(Shelf, "fold", fold)


def _forget_the_applied_number(patch: pytest.MonkeyPatch) -> None:
    really_commit = Fold.commit
    patch.setattr(Fold, "commit", lambda fold, _number: really_commit(fold, 0))


def _trust_the_shard_that_is_ahead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shelf, "applied", property(lambda shelf: shelf.newest_applied))


def _take_what_a_shard_has_for_what_all_have(patch: pytest.MonkeyPatch) -> None:
    really_apply = Recent.apply

    def apply(recent: Recent, edit: Edit, *, shelved: bool = False) -> None:
        if not shelved:
            really_apply(recent, edit)

    patch.setattr(Recent, "apply", apply)


def _replay_what_a_shard_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shelf, "has", lambda _shelf, _edit, _number: False)


def _write_the_manifest_in_place(patch: pytest.MonkeyPatch) -> None:
    def write_manifest(disk: Disk, folder: Path, manifest: Manifest) -> None:
        file = disk.create(folder / MANIFEST)
        file.write(msgspec.json.encode(manifest))
        file.sync()
        disk.sync_folder(folder)

    patch.setattr("everbrook.storage.manifest._write", write_manifest)


def _answer_at_once(patch: pytest.MonkeyPatch, hasty: Callable[[], bool]) -> None:
    """Give answers of some kinds before their change is durable."""
    really_last = cast("property", Executing.last_change).fget
    assert really_last

    def last_change(engine: Engine) -> int:
        return engine.durable_change if hasty() else int(really_last(engine))

    patch.setattr(Engine, "last_change", property(last_change))


def _answer_duplicates_at_once(patch: pytest.MonkeyPatch) -> None:
    """A duplicate changes nothing, so it need not wait, or so it seems."""
    really_execute = Engine.execute
    outcomes: list[Outcome] = []

    def execute(engine: Engine, command: Append) -> Outcome:
        outcomes[:] = []
        outcomes.append(really_execute(engine, command))
        return outcomes[0]

    patch.setattr(Engine, "execute", execute)
    _answer_at_once(patch, lambda: bool(outcomes) and isinstance(outcomes[0], Duplicate))


def _answer_refusals_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nothing is stored when a command is refused, so it need not wait, or so it seems."""
    really_execute = Engine.execute
    refused: list[bool] = []

    def execute(engine: Engine, command: Append) -> Outcome:
        refused[:] = [True]
        outcome: Outcome = really_execute(engine, command)
        refused.clear()
        return outcome

    patch.setattr(Engine, "execute", execute)
    _answer_at_once(patch, lambda: bool(refused))


def _answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def park(_committer: Committer, _number: int, answer: Parked) -> None:
        answer(None)

    patch.setattr(Committer, "park", park)


BUGS = {
    "acknowledge before sync": Bug(DURABLE, _acknowledge_before_sync),
    "skip the directory sync": Bug(DURABLE, forgets=_syncs_no_folder),
    "leave the data folder's own name to chance": Bug(DURABLE, forgets=_does_not_sync_its_own_name),
    "leave the names of the journal's files to chance": Bug(ACID, forgets=_syncs_no_journal_folder),
    "leave the names of the databases to chance": Bug(ACID, forgets=_syncs_no_shard_folder),
    "leave the names of the logs to chance": Bug(("file-durable",), forgets=_syncs_no_log_folder),
    "write the manifest in place": Bug(DURABLE, _write_the_manifest_in_place),
    "checksum the header only": Bug(ALL, _checksum_the_header_only),
    "go on behind a torn record": Bug(DURABLE, _go_on_behind_a_torn_record),
    "leave what was torn in place": Bug(ALL, _leave_what_was_torn),
    "leave what was refused to chance": Bug(DURABLE, _leave_what_was_refused_to_chance),
    "build on what only memory has": Bug(DURABLE, _build_on_what_only_memory_has),
    "delete without sync": Bug(DURABLE, _delete_without_sync),
    "delete without a record": Bug(ALL, _delete_without_a_record),
    "forget soft deletion": Bug(ALL, _forget_soft_deletion),
    "keep producers apart from their data": Bug(ALL, _forget_producers),
    "forget closure": Bug(ALL, _forget_closure),
    "begin a journal file that is there already": Bug(ACID, _begin_a_file_that_is_there_already),
    "cut the journal before LMDB has synced": Bug(ACID, _cut_the_journal_first),
    "cut what was written since the fold began": Bug(ACID, _cut_all_of_the_journal),
    "forget the applied number": Bug(ACID, _forget_the_applied_number),
    "trust the shard that is ahead": Bug(ACID, _trust_the_shard_that_is_ahead),
    "take what one shard has for what all have": Bug(ACID, _take_what_a_shard_has_for_what_all_have),
    "replay what a shard has already": Bug(ACID, _replay_what_a_shard_has),
    "enter a stream before its log is there": Bug(FILES, _enter_a_stream_before_its_log),
    "take changes over several streams apart": Bug(FILES, _take_joint_changes_apart),
    "use numbers again after a crash": Bug(FILES, _use_numbers_again),
    "answer before the commit": Bug(ALL, _answer_before_the_commit, level="engine"),
    "answer a duplicate before the append it repeats": Bug(ALL, _answer_duplicates_at_once, level="engine"),
    "answer a refusal before what it rests on": Bug(ALL, _answer_refusals_at_once, level="engine"),
}
