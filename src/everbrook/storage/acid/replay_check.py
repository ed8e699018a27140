"""Checking what the journal's records say: that each edit can be read, and goes on where the stream was."""

from everbrook.protocol.change import Drop, Edit, Write
from everbrook.protocol.state import Head, Identity
from everbrook.storage.acid.journal_check import Placed
from everbrook.storage.acid.shard_check import UNREADABLE
from everbrook.storage.acid.shelf_check import CheckedShelf, Touched, kept_bytes
from everbrook.storage.blob_check import BlobCheck
from everbrook.storage.check import Notebook
from everbrook.storage.packing import Unpacker, unpack_edit


class Replay:
    """The streams as they become by the records of the journal."""

    def __init__(self, shelf: CheckedShelf, notebook: Notebook) -> None:
        self._shelf = shelf
        self._notebook = notebook
        self.heads: dict[int, Head | None] = {}
        self.touched = Touched()

    def take(self, placed: Placed) -> None:
        """Check a record and follow it."""
        record = placed.record
        self._notebook.look_at(placed.path, f"at byte {record.position}")
        unpacker = Unpacker(record.body)
        try:
            while unpacker.position < len(record.body):
                edit = unpack_edit(unpacker, self._head_before)
                self._touch(edit)
                if not self._shelf.has_number(edit.head.identity.incarnation, record.number):
                    self._follow(edit)
            if unpacker.position > len(record.body):
                self._notebook.damage(f"record {record.number} is longer than it says")
        except UNREADABLE:
            self._notebook.damage(f"record {record.number} can't be read, though its checksum is right")

    def _head_of(self, incarnation: int) -> Head | None:
        if incarnation in self.heads:
            return self.heads[incarnation]
        return self._shelf.head(incarnation)

    def _head_before(self, incarnation: int) -> Head:
        return self._head_of(incarnation) or Head(Identity(b"", incarnation, b"", b"", 0), 0, 0)

    def _touch(self, edit: Edit) -> None:
        identity = edit.head.identity
        self.touched.names.add(identity.name)
        self.touched.streams.add(identity.incarnation)
        if identity.fork:
            self.touched.streams.add(identity.fork.source_incarnation)

    def _follow(self, edit: Edit) -> None:
        incarnation = edit.head.identity.incarnation
        before = self._head_of(incarnation)
        created = isinstance(edit, Write) and edit.created
        self.heads[incarnation] = None if isinstance(edit, Drop) else edit.head
        if created and before:
            self._notebook.damage(f"it creates stream {incarnation:016x} again")
        elif not created and not before:
            self._notebook.damage(f"it changes stream {incarnation:016x}, which nothing created")
        elif isinstance(edit, Write):
            start = before.tail if before else edit.head.identity.first_own_offset
            self._check_write(edit, start)

    def _check_write(self, write: Write, start: int) -> None:
        place = f"stream {write.head.identity.incarnation:016x}"
        if write.head.tail - len(write.data) != start:
            self._notebook.damage(f"it does not go on where the stream ended, at {start}", place)
        elif write.data and (not write.ends or write.ends[-1] != write.head.tail):
            self._notebook.damage("its messages do not fill it", place)

    def count_streams(self, blobs: BlobCheck) -> None:
        """Count the streams as the journal leaves them. The shelf counts the others."""
        for head in filter(None, self.heads.values()):
            self._notebook.tally.add(kept_bytes(head))
            blobs.add(head)
