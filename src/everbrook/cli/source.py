"""A stream that is being exported, as of one moment, from wherever an interrupted export left it."""

from typing import TYPE_CHECKING

from everbrook.cli.archive import EndLine, StreamLine, format_line, format_message, format_snapshot
from everbrook.cli.archive_file import Archive, Begun
from everbrook.cli.connection import find_stream
from everbrook.cli.output import format_moment
from everbrook.cli.progress import Advance
from everbrook.protocol.errors import OffsetGone

if TYPE_CHECKING:
    from everbrook import Client
    from everbrook.client.models import Snapshot, StreamInfo

ATTEMPTS = 5


class StreamMoved(Exception):
    """A stream was cut or made anew while it was exported."""


class Source:
    """One stream on its way from a server to an archive."""

    def __init__(
        self, client: "Client", archive: Archive, bucket: str | None, info: "StreamInfo", advance: Advance
    ) -> None:
        self._stream = find_stream(client, info.name, bucket)
        self._archive = archive
        self._bucket = bucket
        self._info = info
        self._advance = advance
        self._at_byte = archive.position()
        self.title = f"{bucket}/{info.name}" if bucket else info.name

    def run(self) -> int:
        """Write the stream. Gives how many messages it has."""
        begun = self._resumed()
        for _ in range(ATTEMPTS):
            try:
                begun = begun or self._begin()
                return self._write(begun)
            except OffsetGone:
                begun = None
                if not self.rewind():
                    break
        raise StreamMoved(f"{self.title} was cut while it was exported: export it again, to a file")

    def rewind(self) -> bool:
        """Take back what was written of it."""
        return self._archive.rewind(self._at_byte)

    def _resumed(self) -> Begun | None:
        """Give what an interrupted export has of the stream, if it is still the same."""
        begun, self._archive.progress.begun = self._archive.progress.begun, None
        if begun is None:
            return None
        if (
            begun.stream.place == (self._bucket, self._info.name)
            and begun.stream.created_at_ms == self._info.created_at_ms
        ):
            self._at_byte = begun.at_byte
            return begun
        self._archive.rewind(begun.at_byte)
        self._at_byte = begun.at_byte
        return None

    def _begin(self) -> Begun:
        snapshot, line = self._as_of_now()
        self._archive.write(format_line(line))
        if snapshot is not None:
            self._archive.write(format_snapshot(snapshot.offset, snapshot.content_type, snapshot.data))
        return Begun(self._at_byte, line, int(line.earliest_offset))

    def _as_of_now(self) -> "tuple[Snapshot | None, StreamLine]":
        """Describe the stream together with its snapshot: one that was replaced in between is fetched again."""
        while True:
            head = self._stream.head()
            snapshot = self._stream.snapshot() if head.snapshot_offset else None
            if head.snapshot_offset == (snapshot and snapshot.offset):
                break
        line = StreamLine(
            self._info.name,
            head.content_type,
            head.offset,
            self._info.created_at_ms,
            bucket=self._bucket,
            earliest_offset=head.earliest_offset or "0" * 16,
            ttl_secs=head.ttl_secs,
            expires_at=format_moment(head.expires_at) if head.expires_at else None,
            retention=head.retention,
            closed=head.closed,
        )
        return snapshot, line

    def _write(self, begun: Begun) -> int:
        """Write the messages that are missing, and the end."""
        line = begun.stream
        messages = begun.messages
        if begun.next_offset < int(line.tail_offset):
            for page in self._stream.frames(f"{begun.next_offset:016}", until=line.tail_offset):
                lines = [format_message(frame.offset, frame.time, frame.payload, json=line.json) for frame in page]
                self._archive.write(b"".join(lines))
                messages += len(lines)
                self._advance(self.title, len(page.data))
        self._archive.write(format_line(EndLine(line.tail_offset, messages)))
        return messages
