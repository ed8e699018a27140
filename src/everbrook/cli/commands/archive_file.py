"""The file that an export writes, and the progress of an interrupted export.

The rule: only whole lines count. A line that a crash cut off is removed, and the unfinished stream continues after its
last message.
"""

import os
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from everbrook.cli.commands.archive_format import (
    VERSION,
    ArchiveLine,
    BucketLine,
    EndLine,
    InvalidArchive,
    Line,
    MessageLine,
    StreamLine,
    format_line,
    next_offset,
    parse_line,
)

Place = tuple[str | None, str]

FIRST = format_line(ArchiveLine(VERSION))


class UnfinishedExport(Struct):
    """A stream that is not complete yet: the place of its lines, its description, and the offset it has reached."""

    at_byte: int
    stream: StreamLine
    next_offset: int
    messages: int = 0


class Progress:
    """The content of an archive up to a line."""

    def __init__(self) -> None:
        self.whole: dict[Place, int] = {}
        """The complete streams, with their times of creation."""
        self.buckets: set[str] = set()
        self.begun: UnfinishedExport | None = None

    def take(self, line: Line, at_byte: int) -> None:
        if isinstance(line, BucketLine):
            self.buckets.add(line.bucket)
        elif isinstance(line, StreamLine):
            self.begun = UnfinishedExport(at_byte, line, int(line.earliest_offset))
        elif isinstance(line, MessageLine) and self.begun is not None:
            self.begun.next_offset = next_offset(line, self.begun.stream)
            self.begun.messages += 1
        elif isinstance(line, EndLine) and self.begun is not None:
            self.whole[self.begun.stream.place] = self.begun.stream.created_at_ms
            self.begun = None


class ArchiveFile:
    """A file that is continued after its last whole line. Bytes after that line are removed."""

    def __init__(self, path: Path) -> None:
        """Open a file, or create it."""
        self.progress = Progress()
        self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b")
        try:
            self._file.truncate(self._scan())
        except InvalidArchive:
            self._file.close()
            raise
        self._file.seek(0, os.SEEK_END)
        self.empty = self._file.tell() == 0

    def _scan(self) -> int:
        """Read every line. Returns the end of the last whole line."""
        end = 0
        for number, text in enumerate(self._file, 1):
            if not text.endswith(b"\n"):
                if number == 1 and not FIRST.startswith(text):
                    raise InvalidArchive(number, f"it must begin with {FIRST.decode().strip()}")
                break
            self.progress.take(parse_line(text, number), end)
            end += len(text)
        return end

    def write(self, lines: bytes) -> None:
        self._file.write(lines)

    def position(self) -> int:
        """Return the position of the next line."""
        return self._file.tell()

    def rewind(self, at_byte: int) -> bool:
        """Remove the lines from a position on."""
        self._file.flush()
        self._file.seek(at_byte)
        self._file.truncate()
        return True

    def close(self) -> None:
        """Make all lines durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class ArchivePipe:
    """Standard output: it has no earlier lines, and no line can be removed."""

    def __init__(self, file: BinaryIO) -> None:
        self.progress = Progress()
        self.empty = True
        self._file = file

    def write(self, lines: bytes) -> None:
        self._file.write(lines)

    def position(self) -> int:
        """Return 0, because a pipe has no positions."""
        return 0

    def rewind(self, _at_byte: int) -> bool:
        """Return False: lines in a pipe can't be removed."""
        return False

    def close(self) -> None:
        self._file.flush()


Archive = ArchiveFile | ArchivePipe
