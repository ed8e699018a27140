"""Durable changes: notifies their followers, and records which streams changed recently, for clients that poll.

Recent changes are in the order of each stream's last change. Each end of a stream is a change of its own, so that a
client learns of all streams that had a name since. Recording begins with the first request for a token. Changes of an
earlier run of the server, and changes that are too old, are not known: then the client must list everything again.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice

from msgspec import Struct

from everbrook.engine.expiry import Expiry
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.stream import Stream
from everbrook.engine.tuning import RecentChangesTuning
from everbrook.protocol.errors import InvalidQuery, TokenGone, quoted
from everbrook.protocol.state import Drop, Edit, Head, Write

_TOKEN = re.compile(r"([0-9a-f]{1,16})-([0-9]{1,16})")


class Ended(Struct, frozen=True, gc=False):
    """A stream that has ended: its name, which another stream may have now, its incarnation, and its last tail."""

    name: bytes
    incarnation: int
    tail: int


def end_of(head: Head) -> Ended:
    """Return the end of a stream whose head is given."""
    return Ended(head.identity.name, head.identity.incarnation, head.tail)


class RecentChanges:
    """The streams that changed recently."""

    def __init__(self, run: int, tuning: RecentChangesTuning) -> None:
        """`run` is a random number of 64 bits that identifies this run of the server."""
        self._run = run
        self._max_streams = tuning.max_streams
        self._max_name_bytes = tuning.max_name_bytes
        self._name_bytes = 0
        self._min_log = tuning.min_log
        self._numbers: dict[bytes | Ended, int] = {}
        """The number of the last change of each stream, and of the end of each stream that has ended."""
        self._log: list[tuple[int, bytes | Ended]] = []
        self._last = 0
        self._forgotten = 0
        self.recording = False

    @property
    def count(self) -> int:
        """How many streams are remembered as changed."""
        return len(self._numbers)

    @property
    def log_length(self) -> int:
        """How many entries the log has, including stale ones, whose streams have changed again since."""
        return len(self._log)

    def token(self) -> str:
        """Return a token for the changes from now on."""
        self.recording = True
        return self._token_of(self._last)

    def _token_of(self, number: int) -> str:
        return f"{self._run:x}-{number}"

    def record(self, name: bytes) -> None:
        """Record that a stream changed."""
        self._record(name, name)

    def record_end(self, ended: Ended) -> None:
        """Record that a stream ended. The end is an entry of its own, even if the name is in use again."""
        if self._numbers.pop(ended.name, None) is not None:
            self._name_bytes -= len(ended.name)
        self._record(ended, ended.name)

    def _record(self, change: bytes | Ended, name: bytes) -> None:
        # Removed and added again, so that the dictionary is in the order of the last changes.
        if self._numbers.pop(change, None) is None:
            self._name_bytes += len(name)
        self._last += 1
        self._numbers[change] = self._last
        self._log.append((self._last, change))
        while len(self._numbers) > self._max_streams or self._name_bytes > self._max_name_bytes:
            oldest = next(iter(self._numbers))
            self._forgotten = self._numbers.pop(oldest)
            self._name_bytes -= len(_name_of(oldest))
        if len(self._log) > 2 * len(self._numbers) + self._min_log:
            # Most entries are stale: their streams have changed again since.
            self._log = [(number, change) for change, number in self._numbers.items()]

    def since(
        self, token: bytes, prefix: bytes, limit: int, visible: Callable[[bytes], bool] | None = None
    ) -> list[tuple[bytes | Ended, str]]:
        """Return the streams that changed or ended since a token was issued, in order, each with a token to continue
        from.

        Streams for which `visible` is false are left out: the client may not see them.
        """
        start = bisect_right(self._log, self._parse(token), key=lambda entry: entry[0])
        entries = (self._log[place] for place in range(start, len(self._log)))
        changed = (
            (change, self._token_of(number))
            for number, change in entries
            if self._numbers.get(change) == number
            and (name := _name_of(change)).startswith(prefix)
            and (not visible or visible(name))
        )
        return list(islice(changed, limit))

    def _parse(self, token: bytes) -> int:
        match = _TOKEN.fullmatch(token.decode("ascii", "replace"))
        if match is None:
            raise InvalidQuery(f"changed_since must be the token of an earlier listing, got {quoted(token)}")
        number = int(match[2])
        if int(match[1], 16) != self._run or number < self._forgotten or number > self._last:
            raise TokenGone("the server no longer has the changes since this token; list all streams again")
        return number


def _name_of(change: bytes | Ended) -> bytes:
    return change.name if isinstance(change, Ended) else change


class DurableChanges:
    """The observer of the streams in memory: counts appended messages, and notifies followers of durable edits."""

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

    def appended(self, stream: Stream, writes: Sequence[Write]) -> None:
        """Appends to a stream are durable. Followers hear of the last one that has data."""
        for write in writes:
            self.appended_messages += len(write.ends)
            self.appended_bytes += len(write.data)
        identity = stream.committed.identity
        if self._recent_changes.recording:
            self._recent_changes.record(identity.name)
        if self.followers:
            # The last one may be a close without data. A follower that looks for data would miss what came before it.
            last = next((write for write in reversed(writes) if write.data), writes[-1])
            self._faults.each(Callback.FOLLOWER, self.followers, last)
        if identity.retention:
            self._faults.run(Callback.FOLLOWER, self._expiry.follow, stream, writes[-1], stream.committed)

    def became_durable(self, stream: Stream, edit: Edit, before: Head) -> None:
        """Any other edit is durable, and readers see it."""
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
