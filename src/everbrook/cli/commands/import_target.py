"""A stream that an import creates, message by message; an interrupted import is continued.

The rule: every append names the offset at which the stream must end (`If-Match`). Offsets count bytes, so the archive
determines the offset of every message. After any failure the tail says which messages are stored: no message is
appended twice, or after the messages of another writer.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from everbrook.cli.commands.archive_format import EndLine, MessageLine, SnapshotLine, StreamLine, next_offset, one_line
from everbrook.cli.terminal.output import format_moment
from everbrook.client.errors import AppendUncertain
from everbrook.protocol.errors import PayloadTooLarge, StreamClosed, StreamExists, TailMoved

if TYPE_CHECKING:
    from everbrook import Stream
    from everbrook.client.models import Head

MAX_BATCH_BYTES = 1024 * 1024
MAX_BATCH_MESSAGES = 10_000
ATTEMPTS = 10


class Unlike(Exception):
    """The stream on the server differs from the one in the archive."""


class Target:
    """Creates one stream of an archive on a server."""

    def __init__(self, stream: "Stream[Any]", line: StreamLine, *, verify: bool) -> None:
        """Create the stream, or find how much of it exists. With `verify`, every existing message is compared."""
        self._stream = stream
        self._line = line
        self._batch: list[MessageLine] = []
        self._batch_bytes = 0
        self._snapshot: SnapshotLine | None = None
        head = self._create()
        # What was cut before the export can't be made again: the stream begins behind it, at 0. Only the very stream
        # that was exported has it behind its beginning too.
        self._shift = 0 if head.earliest_offset == line.earliest_offset else int(line.earliest_offset)
        self._next = int(line.earliest_offset) - self._shift
        self._end = int(line.tail_offset) - self._shift
        self.created = head.created
        self.appended = 0
        self._taken = 0
        self._closed = head.closed
        self._exact = "if-match" in head.extensions
        self._snapshot_there = head.snapshot_offset
        self._tail = int(head.offset)
        self._require_possible()
        partly = 0 < self._tail < self._end
        self._compared_from = int(head.earliest_offset or 0)
        self._there = self._messages_there() if partly or (verify and self._tail) else None

    def _create(self) -> "Head":
        line = self._line
        try:
            created = self._stream.create(
                content_type=line.content_type,
                ttl_secs=line.ttl_secs,
                expires_at=line.expires_at,
                retention=line.retention,
            )
        except StreamExists as error:
            return self._find_alike(error)
        return created if created.created else self._stream.head()

    def _find_alike(self, error: StreamExists) -> "Head":
        """Accept a stream that differs only in being closed, or in being a fork: only its bytes matter."""
        head, line = self._stream.head(), self._line
        expires_at = head.expires_at and format_moment(head.expires_at)
        there = (head.content_type, head.ttl_secs, expires_at, head.retention)
        if there != (line.content_type, line.ttl_secs, line.expires_at, line.retention):
            raise Unlike(f"{line.title}: {error.detail}") from error
        return head

    def _require_possible(self) -> None:
        if self._tail > self._end:
            raise Unlike(
                f"{self._line.title} has more messages on the server than in the archive: it ends at {self._tail:016}"
            )
        if not self._exact:
            raise Unlike(f"{self._line.title}: an import needs a server that supports If-Match, such as Everbrook")
        if self._closed and (self._tail < self._end or not self._line.closed):
            raise Unlike(f"{self._line.title} is closed on the server, at {self._tail:016}")

    def _messages_there(self) -> Iterator[bytes]:
        if self._compared_from == self._tail:
            return
        for page in self._stream.frames(f"{self._compared_from:016}", until=f"{self._tail:016}"):
            for frame in page:
                yield frame.payload

    def take_snapshot(self, line: SnapshotLine) -> None:
        """Keep the snapshot until the messages before it are appended."""
        self._snapshot = line

    def take(self, line: MessageLine) -> None:
        """Take the next message of the archive."""
        if line.offset - self._shift != self._next or line.json != self._line.json:
            raise ValueError(_misplaced(line, self._line, self._next + self._shift))
        self._next = next_offset(line, self._line) - self._shift
        self._taken += 1
        self._place(line)
        # Only in JSON streams can a request have several messages.
        if not self._line.json or self._batch_bytes >= MAX_BATCH_BYTES or len(self._batch) == MAX_BATCH_MESSAGES:
            self.flush()

    def _place(self, line: MessageLine) -> None:
        """Compare a message with the stored one, or queue it for the next append."""
        begin, end = line.offset - self._shift, next_offset(line, self._line) - self._shift
        if begin >= self._tail:
            self._batch.append(line)
            self._batch_bytes += len(line.payload) + 1
        elif end > self._tail or not self._same(line, begin):
            raise Unlike(f"{self._line.title} differs from the archive in the message at {begin:016}")

    def _same(self, line: MessageLine, begin: int) -> bool:
        if self._there is None or begin < self._compared_from:
            return True
        there = next(self._there, None)
        return there is not None and (one_line(there) if line.json else there) == line.payload

    @property
    def position(self) -> str:
        """The offset, in the archive, of the first message that the stream lacks: the import continues there."""
        return f"{self._tail + self._shift:016}"

    def flush(self) -> None:
        """Append the queued messages."""
        for attempt in range(ATTEMPTS):
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            if not batch:
                return
            try:
                body = b",".join(message.payload for message in batch)
                self._tail = int(self._stream.append(body, if_match=f"{self._tail:016}"))
                self.appended += len(batch)
            except (AppendUncertain, StreamClosed, TailMoved):
                if attempt == ATTEMPTS - 1:
                    raise
                self._look_again()
                for line in batch:
                    self._place(line)
            except PayloadTooLarge:
                if len(batch) == 1:
                    raise
                self._flush_halves(batch)
                return
            else:
                self._there = None
                return

    def _flush_halves(self, batch: list[MessageLine]) -> None:
        """Append fewer messages at once: the server refused the request as too large."""
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            self._batch = half
            self.flush()

    def _look_again(self) -> None:
        """Read the state of the stream again: an append without a response, or another writer, may have changed it."""
        self._compared_from = self._tail
        head = self._stream.head()
        self._tail, self._closed = int(head.offset), head.closed
        self._require_possible()
        self._there = self._messages_there()

    def finish(self, line: EndLine) -> None:
        """Publish the snapshot, and close the stream if it was closed."""
        self.flush()
        if self._next != self._end:
            raise ValueError(
                f"{self._line.title} ends at {self._next + self._shift:016}, not where its first line says"
            )
        if self._taken != line.messages:
            raise ValueError(f"{self._line.title} has {self._taken} messages, but its last line says {line.messages}")
        if self._snapshot is not None:
            self._publish(self._snapshot)
        if self._line.closed and not self._closed:
            self._look_again()
            self._stream.close()

    def _publish(self, line: SnapshotLine) -> None:
        offset = f"{int(line.snapshot) - self._shift:016}"
        if self._snapshot_there != offset:
            self._stream.publish(line.data, offset=offset, content_type=line.content_type, keep_history=True)


def _misplaced(line: MessageLine, stream: StreamLine, expected: int) -> str:
    if line.json != stream.json:
        return f"a message of {stream.title}, which is {stream.content_type}, has {'a' if line.json else 'no'} value"
    return f"a message at {line.offset:016} follows one that ends at {expected:016}"
