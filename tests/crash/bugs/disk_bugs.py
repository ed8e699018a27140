"""Deliberate bugs about syncs and names: something is taken for durable that is not."""

from collections.abc import Callable, Sequence
from pathlib import Path

import lmdb
import pytest
from msgspec.structs import replace

from everbrook.protocol import Change, Drop, Edit
from everbrook.storage import DurableStorage, lmdb_base
from everbrook.storage.disk import Disk
from everbrook.storage.journal import Journal
from everbrook.storage.lmdb_base import MAP_BYTES
from everbrook.storage.manifest import BASE, JOURNAL, MANIFEST, SEGMENTS, Manifest, format_manifest
from everbrook.storage.segments import SegmentWriter
from tests.crash.bugs.bug import ALL, BOTH, DURABLE, FILES, Bug, without_syncing
from tests.crash.simulation.operations import FolderSynced, Operation, Synced, Wrote
from tests.crash.simulation.recorder import Alters


def _sync_no_folder(forgotten: Callable[[Path], bool]) -> Alters:
    def alter(operation: Operation) -> Operation | None:
        return None if isinstance(operation, FolderSynced) and forgotten(operation.path) else operation

    return alter


def _sync_no_file(operation: Operation) -> Operation | None:
    if isinstance(operation, Wrote):
        return replace(operation, synced=False)
    return None if isinstance(operation, Synced) else operation


def _sync_nothing(operation: Operation) -> Operation | None:
    return None if isinstance(operation, FolderSynced) else _sync_no_file(operation)


def _open_lmdb_with(**options: bool) -> Callable[[pytest.MonkeyPatch], None]:
    def sow(patch: pytest.MonkeyPatch) -> None:
        def open_environment(folder: Path) -> lmdb.Environment:
            return lmdb.open(str(folder), map_size=MAP_BYTES, max_dbs=16, **options)

        patch.setattr(lmdb_base, "open_environment", open_environment)

    return sow


def _persist_without_sync(patch: pytest.MonkeyPatch, careless: Callable[[Edit], bool]) -> None:
    """Let the groups that hold an edit of a certain kind be acknowledged before they are on the disk."""
    really_persist = DurableStorage.persist

    def persist(storage: DurableStorage, group: Sequence[Change]) -> None:
        if any(careless(edit) for change in group for edit in change):
            without_syncing(really_persist, storage, group)
        else:
            really_persist(storage, group)

    patch.setattr(DurableStorage, "persist", persist)


def _acknowledge_before_sync(patch: pytest.MonkeyPatch) -> None:
    _persist_without_sync(patch, lambda _edit: True)


def _delete_without_sync(patch: pytest.MonkeyPatch) -> None:
    _persist_without_sync(patch, lambda edit: isinstance(edit, Drop) or edit.head.deleted)


def _write_the_manifest_in_place(patch: pytest.MonkeyPatch) -> None:
    def write_manifest(disk: Disk, folder: Path, manifest: Manifest) -> None:
        file = disk.create(folder / MANIFEST)
        file.write(format_manifest(manifest))
        file.sync()
        disk.sync_folder(folder)

    patch.setattr("everbrook.storage.manifest.write_manifest", write_manifest)


def _build_on_what_only_memory_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "_rewrite", lambda *_args: None)


def _trust_a_sync_after_one_that_failed(patch: pytest.MonkeyPatch) -> None:
    """Sync what a killed process has left in memory, and do not write it again."""
    patch.setattr(Journal, "_rewrite", lambda journal, file, *_range: journal._sync_file(file.path))


def _leave_segments_to_chance(patch: pytest.MonkeyPatch) -> None:
    really_finish = SegmentWriter._finish
    patch.setattr(SegmentWriter, "_finish", lambda *args: without_syncing(really_finish, *args))


DISK_BUGS = {
    "sync nothing": Bug(ALL, alters=_sync_nothing),
    "sync no file": Bug(ALL, alters=_sync_no_file),
    "open LMDB without sync": Bug(ALL, _open_lmdb_with(sync=False)),
    "open LMDB without a sync of its first pages": Bug(ALL, _open_lmdb_with(metasync=False)),
    "acknowledge before sync": Bug(DURABLE, _acknowledge_before_sync),
    "delete without sync": Bug(DURABLE, _delete_without_sync),
    "skip the directory sync": Bug(ALL, alters=_sync_no_folder(lambda _path: True)),
    "leave the data folder's own name to chance": Bug(DURABLE, alters=_sync_no_folder(lambda path: path == Path())),
    "leave the names of the journal's files to chance": Bug(
        DURABLE, alters=_sync_no_folder(lambda path: path.name == JOURNAL)
    ),
    "leave the name of the base's file to chance": Bug(ALL, alters=_sync_no_folder(lambda path: path.name == BASE)),
    "leave the names of the segments to chance": Bug(
        FILES, alters=_sync_no_folder(lambda path: path.parent.name == SEGMENTS)
    ),
    "leave the bytes of the segments to chance": Bug(FILES, _leave_segments_to_chance),
    "write the manifest in place": Bug(BOTH, _write_the_manifest_in_place, seed=2020),
    "build on what only memory has": Bug(("file-durable", "file-fast-and-durable"), _build_on_what_only_memory_has),
    "build on what only memory has, beside no segments": Bug(("acid",), _build_on_what_only_memory_has, seed=2061),
    "trust a sync after one that failed": Bug(DURABLE, _trust_a_sync_after_one_that_failed),
}
