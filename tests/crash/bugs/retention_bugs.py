"""Deliberate bugs about snapshots and what streams retain, to prove that the crash tests notice them.

Each takes something for durable that is not yet, or for gone that somebody still needs.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import pytest
from msgspec.structs import replace

from everbrook.engine import Engine
from everbrook.engine.blobs import Finished, Upload
from everbrook.protocol import WHOLE, Change, Cut, Fork, Head, Identity, Kept, PublishSnapshot, Snapshot, Write
from everbrook.protocol.errors import NotFound, StreamGone
from everbrook.storage import DurableStorage, Storage, codec
from everbrook.storage.api import needs_blob
from everbrook.storage.base_rows import PLACE, Database, holds
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.chunk import LOCATION, is_inline
from everbrook.storage.codec import Unpacker
from everbrook.storage.file_blobs import BLOBS, FileBlobs, FileDraft
from tests.crash.bugs.bug import BOTH, DURABLE, FILES, Bug, without_syncing, write_otherwise
from tests.crash.simulation.modes import CHUNK_BYTES
from tests.crash.simulation.operations import FolderSynced, Operation


def _sync_no_folder_of_a_blob(operation: Operation) -> Operation | None:
    return None if isinstance(operation, FolderSynced) and operation.path.parent.name == BLOBS else operation


def _sync_no_folder_of_blobs(operation: Operation) -> Operation | None:
    return None if isinstance(operation, FolderSynced) and operation.path.name == BLOBS else operation


def _sync_no_blob(patch: pytest.MonkeyPatch) -> None:
    really_write, really_finish = FileDraft.write, FileDraft.finish
    patch.setattr(FileDraft, "write", lambda *args: without_syncing(really_write, *args))
    patch.setattr(FileDraft, "finish", lambda *args: without_syncing(really_finish, *args))


def _leave_what_was_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileDraft, "abandon", lambda _draft: None)


def _before_persisting(patch: pytest.MonkeyPatch, act: Callable[[DurableStorage, Head, Kept], None]) -> None:
    """Do something about each cut before it is durable. `act` is given the head that it replaces."""
    really_persist = DurableStorage.persist

    def persist(storage: DurableStorage, group: Sequence[Change]) -> None:
        for edit in (edit for change in group for edit in change):
            before = storage.load(edit.head.identity.name)
            if isinstance(edit, Write) and edit.cut and before:
                act(storage, before.head, edit.head.kept)
        really_persist(storage, group)

    patch.setattr(DurableStorage, "persist", persist)


def _remove_the_old_snapshot_first(patch: pytest.MonkeyPatch) -> None:
    def remove(storage: Storage, before: Head, _kept: Kept) -> None:
        snapshot = before.kept.snapshot
        if snapshot and not snapshot.automatic and snapshot != before.identity.first_kept.snapshot:
            storage.blobs.remove(snapshot.owner, snapshot.blob)

    _before_persisting(patch, remove)


def _discard_before_the_cut(patch: pytest.MonkeyPatch) -> None:
    def discard(storage: DurableStorage, before: Head, kept: Kept) -> None:
        with Checkpoint(storage._base, storage._tuning) as checkpoint:
            checkpoint.discard({before.identity.incarnation: kept.earliest})
            checkpoint.commit()
        storage._checkpointer._remove(checkpoint.removals)

    _before_persisting(patch, discard)


def _put_floors(patch: pytest.MonkeyPatch, floor_of: Callable[[Head, Identity | None], int]) -> None:
    patch.setattr("everbrook.storage.merged_view.floor_of", floor_of)


def _discard_what_forks_read(patch: pytest.MonkeyPatch) -> None:
    _put_floors(patch, lambda head, _oldest_fork: head.kept.earliest)


def _discard_up_to_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Its history may have been kept."""
    _put_floors(patch, lambda head, _fork: head.kept.snapshot.offset if head.kept.snapshot else 0)


def _discard_the_segment_that_goes_on(patch: pytest.MonkeyPatch) -> None:
    really_remove = Checkpoint._remove_chunks

    def remove(checkpoint: Checkpoint, incarnation: int, floor: int | None) -> None:
        really_remove(checkpoint, incarnation, floor)
        cursor = checkpoint._rows.cursor(Database.CHUNKS)
        if cursor.set_range(PLACE.pack(incarnation, 0)) and holds(cursor, incarnation):
            row = bytes(cursor.value())
            if not is_inline(row):
                checkpoint.removals.append((incarnation, LOCATION.unpack_from(row)[1]))

    patch.setattr(Checkpoint, "_remove_chunks", remove)


def _discard_the_chunk_that_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Floors are rounded up by what a chunk holds."""
    really_remove = Checkpoint._remove_chunks

    def remove(checkpoint: Checkpoint, incarnation: int, floor: int | None) -> None:
        really_remove(checkpoint, incarnation, floor and floor + CHUNK_BYTES - 1)

    patch.setattr(Checkpoint, "_remove_chunks", remove)


def _sweep_what_forks_began_with(patch: pytest.MonkeyPatch) -> None:
    def needs(head: Head | None, _forks: Iterable[Identity], blob: int) -> bool:
        return needs_blob(head, (), blob)

    patch.setattr("everbrook.storage.merged_view.needs_blob", needs)


def _sweep_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DurableStorage, "keeps", lambda _storage, _owner, _blob: True)


def _keep_everything_again_with_the_next_write(patch: pytest.MonkeyPatch) -> None:
    really_unpack = codec.unpack_head

    def unpack(unpacker: Unpacker, identity: Identity, _before: Kept = WHOLE) -> tuple[Head, int]:
        return really_unpack(unpacker, identity)

    patch.setattr(codec, "unpack_head", unpack)


def _forget_cuts(patch: pytest.MonkeyPatch) -> None:
    write_otherwise(patch, lambda write: replace(write, cut=False))


def _forget_what_a_fork_began_with(patch: pytest.MonkeyPatch) -> None:
    def fork(source: bytes, incarnation: int, offset: int, anchor: int | None, sub_offset: int, _kept: Kept) -> Fork:
        return Fork(source, incarnation, offset, anchor, sub_offset)

    patch.setattr(codec, "Fork", fork)


def _forget_policies(patch: pytest.MonkeyPatch) -> None:
    def without(write: Write) -> Write:
        return replace(write, head=replace(write.head, identity=replace(write.head.identity, retention=None)))

    write_otherwise(patch, without)


def _publish_before_the_blob_is_whole(patch: pytest.MonkeyPatch) -> None:
    def finish(_upload: Upload, then: Finished) -> None:
        then(None)

    patch.setattr(Upload, "finish", finish)


def _remove_what_a_publication_replaces(patch: pytest.MonkeyPatch) -> None:
    really_publish, really_begin = Engine.publish, FileBlobs.begin
    used: list[FileBlobs] = []

    def begin(blobs: FileBlobs, owner: int, number: int) -> FileDraft:
        used[:] = [blobs]
        return really_begin(blobs, owner, number)

    def publish(engine: Engine, upload: Upload, command: PublishSnapshot) -> Cut:
        before: Snapshot | None = None
        with suppress(NotFound, StreamGone):
            before = engine.readers.find(command.name, command.now).head.kept.snapshot
        outcome = really_publish(engine, upload, command)
        if before and not before.automatic:
            used[0].remove(before.owner, before.blob)
        return outcome

    patch.setattr(FileBlobs, "begin", begin)
    patch.setattr(Engine, "publish", publish)


RETENTION_BUGS = {
    "refer to a blob before it is synced": Bug(DURABLE, _sync_no_blob),
    "leave the names of the blobs to chance": Bug(DURABLE, alters=_sync_no_folder_of_a_blob),
    "leave the folders of the blobs to chance": Bug(DURABLE, alters=_sync_no_folder_of_blobs),
    "leave what was given up": Bug(BOTH, _leave_what_was_given_up),
    "remove the old snapshot before the change is durable": Bug(DURABLE, _remove_the_old_snapshot_first),
    "discard before the cut is durable": Bug(DURABLE, _discard_before_the_cut),
    "discard what forks still read": Bug(BOTH, _discard_what_forks_read, seed=2010),
    "discard the history that a snapshot was to keep": Bug(BOTH, _discard_up_to_the_snapshot),
    "discard the segment that goes on behind the floor": Bug(FILES, _discard_the_segment_that_goes_on, seed=2020),
    "discard the chunk that goes on behind the floor": Bug(BOTH, _discard_the_chunk_that_goes_on),
    "sweep what forks began with": Bug(BOTH, _sweep_what_forks_began_with),
    "sweep nothing": Bug(BOTH, _sweep_nothing),
    "keep everything again with the next write": Bug(BOTH, _keep_everything_again_with_the_next_write),
    "forget cuts": Bug(BOTH, _forget_cuts),
    "forget what a fork began with": Bug(BOTH, _forget_what_a_fork_began_with),
    "forget policies": Bug(BOTH, _forget_policies),
    "publish before the blob is whole": Bug(BOTH, _publish_before_the_blob_is_whole, level="engine"),
    "remove what a publication replaces at once": Bug(
        ("file-fast",), _remove_what_a_publication_replaces, level="engine", seed=2019
    ),
}
