"""An export's file after an interruption at any byte: it goes on behind its last whole line."""

from pathlib import Path

import pytest

from everbrook.cli.commands.archive_file import ArchiveFile
from everbrook.cli.commands.archive_format import (
    ArchiveLine,
    EndLine,
    InvalidArchive,
    StreamLine,
    format_line,
    format_message,
)

LINES = [
    format_line(ArchiveLine(1)),
    format_line(StreamLine("a", "text/plain", "0" * 15 + "2", 1)),
    format_message(0, 1, b"x", json=False),
    format_message(1, 1, b"y", json=False),
    format_line(EndLine("0" * 15 + "2", 2)),
    format_line(StreamLine("b", "application/json", "0" * 15 + "4", 1)),
    format_message(0, 1, b"12", json=True),
]
WHOLE = b"".join(LINES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.mark.parametrize("cut", range(0, len(WHOLE) + 1, 3))
def test_a_file_cut_at_any_byte_goes_on_behind_its_last_whole_line(path: Path, cut: int) -> None:
    path.write_bytes(WHOLE[:cut])
    ArchiveFile(path).close()
    kept = path.read_bytes()
    assert WHOLE.startswith(kept)
    assert kept == b"" or kept.endswith(b"\n")
    assert WHOLE[:cut][len(kept) :].count(b"\n") == 0


def test_it_knows_which_streams_are_whole_and_how_far_the_last_one_came(path: Path) -> None:
    path.write_bytes(WHOLE)
    file = ArchiveFile(path)
    file.close()
    begun = file.progress.begun
    assert file.progress.whole == {(None, "a"): 1}
    assert begun is not None
    assert (begun.stream.stream, begun.next_offset, begun.messages) == ("b", 3, 1)
    assert begun.at_byte == sum(map(len, LINES[:5]))


def test_lines_can_be_taken_back(path: Path) -> None:
    path.write_bytes(WHOLE)
    file = ArchiveFile(path)
    assert file.progress.begun is not None
    assert file.rewind(file.progress.begun.at_byte)
    file.write(b"{}\n")
    file.close()
    assert path.read_bytes() == b"".join([*LINES[:5], b"{}\n"])


@pytest.mark.parametrize("text", ["Dear diary,\ntoday\n", "Dear diary,\n", "Dear diary", '{"archive":1}\nDear diary\n'])
def test_a_file_of_something_else_is_left_as_it_is(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(InvalidArchive, match="line "):
        ArchiveFile(path)
    assert path.read_text() == text
