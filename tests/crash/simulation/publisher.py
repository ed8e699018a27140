"""Snapshots in a store without an engine: their bytes first, then the change, and then the old ones are cleared away.

A snapshot may be given up at any moment. What was cleared away is gone for ever; what was not, the next start finds.
"""

from hashlib import sha256
from random import Random

from msgspec.structs import replace

from everbrook.engine.clock import Incarnations
from everbrook.protocol import Change, Kept, PublishSnapshot, Write
from everbrook.protocol.decide import decide
from everbrook.storage import Storage, StorageFull
from tests.crash.simulation.inspection import sweep_blobs
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.promises import Violation
from tests.crash.simulation.snapshot import Snapshot
from tests.kit.views import Streams

ABANDONED = 0.1
FULL = 0.08
FORGOTTEN = 0.15
AT_ONCE = 0.5


class Publisher:
    """Writes blobs, and removes those that nothing refers to any more."""

    def __init__(self, machine: Machine, storage: Storage, incarnations: Incarnations, chance: Random) -> None:
        self._machine = machine
        self._storage = storage
        self._incarnations = incarnations
        self._chance = chance
        if chance.random() < AT_ONCE:
            sweep_blobs(storage)

    def publish(self, streams: Streams, command: PublishSnapshot, pieces: list[bytes]) -> PublishSnapshot | None:
        """Write the blob of a snapshot that could be published now. Gives the command with it, if it comes to that."""
        (edit,) = decide(streams, command).change
        owner, blob = edit.head.identity.incarnation, self._incarnations.next(command.now)
        if not self._write(owner, blob, pieces) or self._chance.random() < ABANDONED:
            return None
        data = b"".join(pieces)
        return replace(command, owner=owner, blob=blob, size=len(data), digest=sha256(data).digest())

    def _write(self, owner: int, blob: int, pieces: list[bytes]) -> bool:
        """Tell whether a blob was written. If it is given up, or there is no room, nothing of it is left."""
        draft, given_up = self._storage.blobs.begin(owner, blob), self._chance.random() < ABANDONED
        self._machine.disk.room_bytes = self._chance.randrange(300) if self._chance.random() < FULL else None
        try:
            for piece in pieces:
                draft.write(piece)
            (draft.abandon if given_up else draft.finish)()
        except StorageFull:
            given_up = True
        finally:
            self._machine.disk.room_bytes = None
        if given_up and any((owner, blob) in batch for batch in self._storage.blobs.all()):
            raise Violation(f"blob {blob} of {owner} was given up, and is still there")
        return not given_up

    def reclaim(self, before: Snapshot, group: list[Change]) -> None:
        """Give back what nobody retains after a group that is visible now, as an engine does. It can be lost."""
        if self._chance.random() < FORGOTTEN:
            return
        edits = [edit for change in group for edit in change]
        for edit in edits:
            identity = edit.head.identity
            if isinstance(edit, Write) and edit.cut:
                self._storage.discard(identity.incarnation)
            elif not isinstance(edit, Write) and identity.fork:
                self._storage.discard(identity.fork.source_incarnation)
        heads = [state.head for state in before.values()] + [edit.head for edit in edits]
        self._collect([head.kept for head in heads] + [head.identity.first_kept for head in heads])

    def give_up(self, group: list[Change]) -> None:
        """Remove the blobs of changes that there was no room for."""
        if self._chance.random() > FORGOTTEN:
            self._collect([edit.head.kept for change in group for edit in change])

    def _collect(self, kept: list[Kept]) -> None:
        snapshots = [each.snapshot for each in kept if each.snapshot]
        for owner, blob in sorted({(snapshot.owner, snapshot.blob) for snapshot in snapshots}):
            if blob and not self._storage.keeps(owner, blob):
                self._machine.uploads.submit(self._storage.blobs.remove, owner, blob)
        if self._chance.random() < AT_ONCE:
            self._machine.uploads.run()
