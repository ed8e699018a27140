"""Recovery: applies the changes that are only in the journal to the view, in order."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from everbrook.protocol.state import Drop, Edit, Head, Write
from everbrook.storage.base_rows import UNREADABLE, unknown_identity
from everbrook.storage.codec import Unpacker, unpack_edit
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.disk import Disk
from everbrook.storage.journal_scan import Lost, Recovered, Torn
from everbrook.storage.lost_found import LostAndFound
from everbrook.storage.manifest import StoreError
from everbrook.storage.merged_view import MergedView
from everbrook.storage.record import Record

logger = logging.getLogger(__name__)

UNKNOWN_LOSS = "a part of the journal is lost, and the streams that it changed are unknown: run everbrook repair"


def replay(
    recovered: Recovered,
    head_of: Callable[[int], Head | None],
    take: Callable[[int, Edit], None],
    lose: Callable[[Damage], None],
    refuse: Callable[[int, Exception], None],
) -> None:
    """Replay a journal in order: call `take` with each edit and the number of its change, and `lose` for each lost
    change.

    `head_of` returns the head of a stream after the edits so far. `refuse` is called for a change that can't be parsed
    although its checksum is right.
    """

    def head_before(incarnation: int) -> Head:
        # `take` ignores a write to an unknown stream. A placeholder is enough to unpack it.
        return head_of(incarnation) or Head(unknown_identity(b"", incarnation), 0, 0)

    # In the order of their numbers: a lost change must mark its streams before later changes of them are applied.
    items: list[Record | Lost] = [*recovered.records, *recovered.lost]
    for item in sorted(items, key=lambda item: item.number):
        if isinstance(item, Lost):
            lose(item.damage)
            continue
        unpacker = Unpacker(item.body)
        try:
            while not unpacker.done:
                take(item.number, unpack_edit(unpacker, head_before))
        except UNREADABLE as error:
            refuse(item.number, error)


class Recovery:
    """Applies the journal at a start, and collects its damage."""

    def __init__(self, disk: Disk, folder: Path, view: MergedView) -> None:
        """Apply changes to `view`. Torn writes are kept in `lost+found` of the store's folder."""
        self._kept = LostAndFound(disk, folder)
        self._view = view
        self.damages: list[Damage] = []
        self.remarks: list[str] = []
        """Messages for the operator that are not about damage."""
        self.refusal: str | None = None
        self.written: set[int] | None = set()
        """The streams whose bytes are in the journal. A checkpoint that a crash interrupted has begun segments of these
        streams only.

        None: a part of an unsynced journal was lost with the machine, so the streams are unknown.
        """
        self._lost: set[int] = set()
        """The streams that have lost a change of the journal: their later changes are ignored."""

    def prefix_of(self, recovered: Recovered) -> Recovered:
        """Return the changes before the first missing one: those that were on the disk when the machine stopped."""
        prefix, self.written = recovered.written_prefix(), None
        lost = f"those after {prefix.last} are lost" if recovered.damages else "some of them may be lost"
        self.remark(f"the machine has been restarted since the last changes; {lost}")
        return prefix

    def replay(self, recovered: Recovered) -> None:
        """Apply the changes in order. A change that follows a lost change of its stream is ignored."""
        replay(
            recovered, self._view.readable_head, self._apply, lambda lost: self._lose(lost.streams, str(lost)), _refuse
        )
        self.damages = recovered.damages
        for damage in self.damages:
            logger.error("the journal is damaged: %s", damage)
        if recovered.unknown:
            self.refusal = UNKNOWN_LOSS
        if recovered.torn:
            self._set_aside(recovered.torn)

    def _apply(self, _number: int, edit: Edit) -> None:
        incarnation = edit.head.identity.incarnation
        # A creation and a drop need no earlier change of their stream.
        if not isinstance(edit, Drop) and not edit.created:
            before = self._view.readable_head(incarnation)
            # A gap shows that a change before this one is lost, even if no damage in the journal names the stream.
            follows = before is not None and before.tail == edit.head.tail - len(edit.data)
            if incarnation in self._lost or not follows:
                self._lose((incarnation,), "a change before this one is lost")
                return
        if self.written is not None and isinstance(edit, Write) and edit.data:
            self.written.add(incarnation)
        self._view.take(edit)

    def _lose(self, streams: Sequence[int], reason: str) -> None:
        """Mark streams that have lost a change as damaged from their present tail on."""
        self._lost.update(streams)
        for incarnation in streams:
            head = self._view.readable_head(incarnation)
            self._view.mark(incarnation, DamageMark(head.tail if head else 0, reason))
            # The lost change may have created the stream. Reserve its incarnation, so that no new stream gets this
            # mark.
            self._view.last_incarnation = max(self._view.last_incarnation, incarnation)

    def _set_aside(self, torn: Torn) -> None:
        """Keep a torn write for inspection. It was never acknowledged."""
        try:
            kept = f"its bytes are kept in {self._kept.keep_once(f'{torn.path.stem}-{torn.position}.torn', torn.data)}"
        except OSError as error:
            kept = f"its bytes could not be kept: {error.strerror}"
        streams = ", ".join(f"{stream:016x}" for stream in torn.streams) or "unknown"
        self.remark(
            f"a torn write that was never acknowledged was cut off ({len(torn.data)} bytes, streams: {streams}); {kept}"
        )

    def remark(self, text: str) -> None:
        """Log a message that is not about damage, and keep it."""
        self.remarks.append(text)
        logger.warning("%s", text)


def _refuse(number: int, error: Exception) -> None:
    raise StoreError(f"change {number} of the journal can't be read, though its checksum is right: {error}") from error
