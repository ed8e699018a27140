"""Durable changes: who hears that a stream came or went, or that an edit of it is durable."""

from collections.abc import Callable

from everbrook.engine.expiry import Expiry
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.recent_changes import RecentChanges, end_of
from everbrook.engine.stream import Stream
from everbrook.protocol.state import Drop, Edit, Head, Write


class DurableChanges:
    """The observer of the streams in memory. It counts what was appended, and passes on what became durable."""

    def __init__(self, faults: Faults, recent_changes: RecentChanges, expiry: Expiry) -> None:
        self._faults = faults
        self._recent_changes = recent_changes
        self._expiry = expiry
        self.followers: list[Callable[[Edit], None]] = []
        self.appended_messages = self.appended_bytes = 0

    def arrived(self, stream: Stream) -> None:
        """A stream was created or loaded."""
        self._expiry.watch(stream)

    def left(self, stream: Stream) -> None:
        """A stream was dropped or evicted."""
        self._expiry.forget(stream)

    def became_durable(self, stream: Stream, edit: Edit, before: Head) -> None:
        """An edit is durable, and readers see it."""
        if isinstance(edit, Write) and edit.data:
            self.appended_messages += len(edit.ends)
            self.appended_bytes += len(edit.data)
        if self._recent_changes.recording and not before.deleted:
            if isinstance(edit, Drop) or edit.head.deleted:
                self._recent_changes.record_end(end_of(edit.head))
            else:
                self._recent_changes.record(edit.head.identity.name)
        if self.followers:
            self._faults.each(Callback.FOLLOWER, self.followers, edit)
        try:
            # Guarded without `Faults.run`, because every append comes here.
            self._expiry.follow(stream, edit, before)
        except Exception:  # noqa: BLE001 - `DeadlineScan`, or the next load of the stream, finds what it missed
            self._faults.note(Callback.FOLLOWER)
