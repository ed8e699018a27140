"""Checking logs that begin later: what was let go of may be missing, what is retained may not. And the blobs."""

from pathlib import Path

import pytest

from everbrook.storage.files.layout import Layout
from tests.storage.checking import inspect_files
from tests.storage.drafts import Draft
from tests.storage.files.cutting import cut, fill, open_small, starts
from tests.storage.files.opening import commit, numbers


@pytest.fixture
def stream(tmp_path: Path) -> Draft:
    """A stream that was cut, with a snapshot, and of which segments are gone, in a store that was closed."""
    storage = open_small(tmp_path)
    stream = Draft(b"a", 1, json=True)
    fill(storage, stream)
    draft = storage.blobs.begin(1, 70)
    draft.write(b"the sum")
    draft.finish()
    commit(storage, (stream.cut(stream.boundaries[50], blob=70, content=b"the sum"),))
    storage.discard(1)
    storage.close()
    assert numbers(tmp_path, 1)[0] > 1
    return stream


def test_a_store_with_logs_that_begin_later_verifies(tmp_path: Path, stream: Draft) -> None:
    checked = inspect_files(tmp_path)
    assert (checked.damages, checked.remarks) == ([], [])
    assert checked.tally.stream_bytes == stream.head.tail - stream.boundaries[50]


def test_segments_that_a_crash_left_are_told_and_fine(tmp_path: Path, stream: Draft) -> None:
    Layout(tmp_path).segment(stream.incarnation, 0).write_bytes(b"EBL1")
    checked = inspect_files(tmp_path)
    assert checked.damages == []
    assert checked.remarks == [
        "1 segments are left that streams have let go of; a start after a crash removes them",
    ]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["first", "second", "third"])
def test_a_missing_segment_that_is_retained_is_found(tmp_path: Path, stream: Draft, which: int) -> None:
    number = numbers(tmp_path, 1)[which]
    Layout(tmp_path).segment(stream.incarnation, number).unlink()
    [damage] = inspect_files(tmp_path).damages
    assert "is needed from" in damage if which == 0 else "the log has gaps" in damage


def test_a_missing_segment_that_a_fork_needs_is_found(tmp_path: Path) -> None:
    storage = open_small(tmp_path)
    source = Draft(b"s", 1, json=True)
    fill(storage, source)
    begin = starts(storage, 1)
    cut(storage, source, begin[2])
    commit(storage, (Draft(b"f", 2, json=True, source=source, offset=source.boundaries[20]).write(b"x,"),))
    cut(storage, source, begin[5])
    storage.close()
    assert inspect_files(tmp_path).sound
    Layout(tmp_path).segment(1, 2).unlink()
    [damage] = inspect_files(tmp_path).damages
    assert damage.endswith(f"the log begins at offset {begin[3]}, and is needed from {begin[2]} on")


def test_a_missing_catalogue_does_not_make_damage_of_what_was_let_go(tmp_path: Path, stream: Draft) -> None:
    for path in tmp_path.glob("catalogue-*"):
        path.unlink()
    [damage] = inspect_files(tmp_path).damages
    assert "there are streams and no catalogue" in damage
    Layout(tmp_path).segment(stream.incarnation, numbers(tmp_path, 1)[0]).unlink()
    assert "is needed from" in inspect_files(tmp_path).damages[1]


@pytest.mark.parametrize(
    "content, problem", [(None, "is missing"), (b"the s", "has 5 bytes, and should have 7"), (b"the Sum", "SHA-256")]
)
def test_a_snapshot_that_is_not_what_was_published_is_found(
    tmp_path: Path, stream: Draft, content: bytes | None, problem: str
) -> None:
    [path] = tmp_path.rglob(f"{stream.incarnation:016x}-*.blob")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    [damage] = inspect_files(tmp_path).damages
    assert problem in damage


def test_blobs_that_belong_to_no_snapshot_are_told_and_fine(tmp_path: Path, stream: Draft) -> None:
    [path] = tmp_path.rglob(f"{stream.incarnation:016x}-*.blob")
    path.with_name(path.name.replace("46.blob", "47.blob")).write_bytes(b"x")
    checked = inspect_files(tmp_path)
    assert checked.sound
    assert "1 blobs belong to no snapshot" in checked.remarks[0]
