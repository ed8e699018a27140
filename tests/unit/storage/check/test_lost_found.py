"""The folder for what is damaged: nothing in it is ever replaced."""

from pathlib import Path

from everbrook.storage import OsDisk
from everbrook.storage.lost_found import LostAndFound


def test_parts_are_kept_at_their_positions(tmp_path: Path) -> None:
    path = LostAndFound(OsDisk(), tmp_path).keep("bytes", [(0, b"ab"), (4, b""), (5, b"c")])
    assert path
    assert path.read_bytes() == b"ab\0\0\0c"


def test_nothing_is_kept_of_nothing(tmp_path: Path) -> None:
    assert LostAndFound(OsDisk(), tmp_path).keep("bytes", [(0, b"")]) is None
    assert list(tmp_path.iterdir()) == []


def test_what_has_the_same_name_is_kept_beside_it(tmp_path: Path) -> None:
    lost = LostAndFound(OsDisk(), tmp_path)
    for text in (b"one", b"two", b"three"):
        (tmp_path / "file").write_bytes(text)
        lost.copy(tmp_path / "file")
    lost.take(tmp_path / "file")
    kept = {path.name: path.read_bytes() for path in lost.folder.iterdir()}
    assert kept == {"file": b"one", "file.2": b"two", "file.3": b"three", "file.4": b"three"}
    assert not (tmp_path / "file").exists()
