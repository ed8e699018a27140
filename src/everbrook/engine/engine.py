"""The engine: load, decide, store, wake.

A command is decided at once against the newest state and answered when what it rests on is durable; readers see durable
state only. All calls come from one thread, the loop's.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from everbrook.engine.executing import Executing
from everbrook.engine.inspection import EngineInspection
from everbrook.engine.limits import UNLIMITED
from everbrook.engine.quotas import Quota, StoredQuota
from everbrook.engine.records import QUOTA_RECORDS
from everbrook.engine.stream import Stream
from everbrook.engine.uploads import Upload
from everbrook.engine.usage import Held
from everbrook.protocol.commands import Append, Create, Delete, DeleteBucket, Expire, PublishSnapshot
from everbrook.protocol.content_type import JSON
from everbrook.protocol.decide import decide
from everbrook.protocol.outcomes import Cut, Deleted, Untouched
from everbrook.protocol.path import bucket_prefix
from everbrook.storage.pin import Pin

EXPIRED_AT_ONCE = 256


class Engine(Executing):
    """Executes commands and serves readers, for one server; keeps buckets in their quotas, and takes snapshots in."""

    # Buckets

    def expire_some(self, bucket_id: bytes, after: bytes) -> bytes | None:
        """Expire the streams of a bucket whose time has run out, among those that follow a name.

        Gives the name after which to go on; None if that was all, or a stream lives, for which the bucket stays.
        """
        now = self.clock.now()
        found = self._storage.scan(bucket_prefix(bucket_id), after, EXPIRED_AT_ONCE)
        for name, head in found:
            if head is None or self._streams.lives(head, now):
                return None
            if head.identity.mortal:
                self._execute_due(Expire(name, now))
        return found[-1][0] if len(found) == EXPIRED_AT_ONCE else None

    def delete_bucket(self, bucket_id: bytes) -> Deleted | Untouched:
        """Delete a bucket in which no stream lives. Where many have run out of time, `expire_some` ends them before."""
        self.expire_some(bucket_id, b"")
        outcome = self.execute(DeleteBucket(bucket_id, self.clock.now()))
        self._quotas.forget_bucket(bucket_id)
        return outcome

    def quota(self, bucket_id: bytes) -> Quota:
        """Give the quota that a bucket has of its own."""
        self.find_bucket(bucket_id)
        return self._quotas.own(bucket_id)

    def set_quota(self, bucket_id: bytes, quota: Quota) -> None:
        """Give a bucket a quota of its own. What it holds already, it keeps; the quota outlives the bucket."""
        self.find_bucket(bucket_id)
        stored = StoredQuota(quota)
        name, now, body = QUOTA_RECORDS + bucket_id, self.clock.now(), msgspec.json.encode(stored)
        if self.exists(name):
            self.execute(Append(name, now, JSON, body))
        else:
            self.execute(Create(name, now, self.new_incarnation(), JSON, body))
        self._quotas.set(bucket_id, stored)

    def unset_quota(self, bucket_id: bytes) -> None:
        """Let a bucket have no quota of its own, whether or not it is there."""
        if self.exists(QUOTA_RECORDS + bucket_id):
            self.execute(Delete(QUOTA_RECORDS + bucket_id, self.clock.now()))
            self._quotas.set(bucket_id, None)

    def usage(self, bucket_id: bytes) -> tuple[Held, tuple[int, int]] | None:
        """Give what a bucket holds, and how many bytes and streams it may; None where that is not bounded."""
        self.find_bucket(bucket_id)
        bounds = self._quotas.bounds(bucket_id)
        return None if min(bounds) >= UNLIMITED else (self._usage.of(bucket_id), bounds)

    def check_subscriptions(self, root: bytes, held: Held, more: Held) -> None:
        """Refuse more subscriptions, or more bytes in them, beside what a stream root has, if that is too much."""
        self._quotas.check_subscriptions(root, held, more)

    # Snapshots

    def begin_snapshot(self, command: PublishSnapshot, size: int = 0) -> Upload:
        """Begin to take in the bytes of a snapshot, or raise why it could not be published even now.

        It has to be within the quotas: with the `size` that it declares, and with whatever of it has come.
        """
        self._require_storage()
        (edit,) = decide(self._streams, command).change
        command = replace(command, owner=edit.head.identity.incarnation, blob=self.new_incarnation())
        self._check_room(command, size)
        self._open_blobs.enter()
        upload = Upload(
            self._storage,
            self._blob_executor,
            self.faults,
            lambda: self.last_change,
            (command.owner, command.blob),
            lambda size: self.limits.check_memory(command.name, size, self._storage),
            self.tuning.uploads,
        )
        upload.on_closed = self._open_blobs.leave
        upload.check_size = lambda size: self._check_room(command, size)
        return upload

    def _check_room(self, command: PublishSnapshot, size: int) -> None:
        """Refuse a snapshot of so many bytes if there is a quota that it would not be within."""
        if self._quotas.active:
            self._quotas.check(decide(self._streams, replace(command, size=size)).change)

    def publish(self, upload: Upload, command: PublishSnapshot) -> Cut:
        """Publish an upload that is finished. The answer may be told when `last_change` is durable."""
        outcome = self.execute(
            replace(command, owner=upload.owner, blob=upload.blob, size=upload.size, digest=upload.digest)
        )
        upload.keep()
        self.when_durable(self.last_change, lambda failure: self._give_up(upload) if failure else None)
        return outcome

    def _give_up(self, upload: Upload) -> None:
        """Remove a blob that there was no room to refer to. After any other failure the change may be durable."""
        if not self.failure:
            upload.remove()

    def hold(self, stream: Stream) -> None:
        """Let nothing of a stream go while somebody reads it in one go."""
        self._reclaimer.hold(stream)

    def release(self, stream: Stream) -> None:
        """Let go of what was to go meanwhile."""
        self._reclaimer.release(stream)

    # The whole

    def pin(self, take: Callable[[Pin | None, Exception | None], None]) -> None:
        """Hand over the store as it will be in a moment, with everything that was answered until now, or say why not.

        None without a reason: this storage keeps nothing on a disk.
        """
        self._committer.between_groups(lambda: self._pin(take))

    def _pin(self, take: Callable[[Pin | None, Exception | None], None]) -> None:
        try:
            self._require_storage()
            pin = self._storage.pin()
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked is told
            take(None, error)
        else:
            take(pin, None)

    def inspect(self) -> EngineInspection:
        """Give what was counted, and what is held at the moment."""
        committer, streams = self._committer, self._streams
        return EngineInspection(
            commits=committer.commits,
            pending=committer.last - committer.durable,
            pending_secs=self.pending_secs,
            parked=committer.parked,
            appended_messages=self._appended_messages,
            appended_bytes=self._appended_bytes,
            duplicates=self._duplicates,
            failed=committer.failure is not None,
            stalled=self.stalled_secs > 0,
            faults=self.faults.counts,
            damaged_streams=self._storage.damaged_streams,
            memory_bytes=self._storage.used_bytes,
            loaded_bytes=streams.loaded_bytes,
            checkpoints=self._storage.checkpoints,
            resident_streams=streams.resident,
            newest_streams=streams.newest,
            arriving_streams=streams.arriving,
            held_streams=self._reclaimer.held,
            moved_streams=self.moves.moved_streams,
            expiring=self._upkeep.expiring,
            trimming=self._upkeep.trimming,
        )

    def close(self) -> None:
        """Stop timing, wait for the group on its way, and close the storage.

        A storage that has lost its folder, or whose base is damaged, stays open until the process ends: to close it
        would write to the folder.
        """
        self._upkeep.stop()
        self._reclaimer.stop()
        self._ownership.stop()
        self._committer.close()
        self._blob_executor.shutdown()
        if self._ownership.verify():
            self._storage.close()
