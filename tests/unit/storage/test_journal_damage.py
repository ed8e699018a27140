"""Torn or damaged: what was never acknowledged is cut off, what was and can't be read is named, nothing else goes."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from everbrook.storage.journal import Journal
from everbrook.storage.journal_scan import Needed, Recovered
from everbrook.storage.record import FRAME, STREAM
from tests.kit.damage import cut, flip
from tests.kit.disks import WatchedDisk
from tests.unit.storage.engines import scratch_folder
from tests.unit.storage.test_journal import append, bodies, opened, read

FRAME_BYTES = FRAME.size + STREAM.size


def the_file(folder: Path) -> Path:
    return max(folder.glob("journal-*"))


def place(folder: Path, body: bytes) -> int:
    """Give where a body is in the last file."""
    return the_file(folder).read_bytes().index(body)


def last_of(folder: Path) -> Journal:
    """Write three records in two groups."""
    journal = opened(folder)
    append(journal, b"first")
    append(journal, b"second", b"third")
    return journal


def streams_of(recovered: Recovered) -> list[tuple[int, ...]]:
    return [damage.streams for damage in recovered.damages]


def test_a_flip_in_the_last_record_is_damage_when_it_was_sealed(tmp_path: Path) -> None:
    last_of(tmp_path).seal()
    position = place(tmp_path, b"third")
    flip(the_file(tmp_path), position)
    found = read(tmp_path)
    assert (bodies(found), found.last, found.torn) == ([b"first", b"second"], 3, None)
    [damage] = found.damages
    assert damage.streams == (1,)
    assert damage.place == f"{tmp_path.name}/{the_file(tmp_path).name} at byte {position - FRAME_BYTES}"
    assert "change 3 can't be read" in damage.problem


def test_a_flip_in_the_last_record_is_a_torn_write_when_it_was_not_sealed(tmp_path: Path) -> None:
    last_of(tmp_path)
    position = place(tmp_path, b"third")
    flip(the_file(tmp_path), position)
    found = read(tmp_path)
    assert (bodies(found), found.last, found.damages) == ([b"first", b"second"], 2, [])
    assert found.torn
    assert (found.torn.streams, found.torn.position) == ((1,), position - FRAME_BYTES)
    assert found.torn.data.endswith(b"\x64hird")


@pytest.mark.parametrize("position", [4, 8, 12, 16, 32])
def test_a_damaged_frame_at_the_end_is_a_torn_write_of_unknown_streams(tmp_path: Path, position: int) -> None:
    last_of(tmp_path)
    start = place(tmp_path, b"third") - FRAME_BYTES
    flip(the_file(tmp_path), start + position)
    found = read(tmp_path)
    assert (bodies(found), found.damages) == ([b"first", b"second"], [])
    assert found.torn
    assert (found.torn.position, found.torn.streams, found.torn.data[-5:]) == (start, (), b"third")


def test_a_later_record_proves_those_before_its_group(tmp_path: Path) -> None:
    last_of(tmp_path)
    flip(the_file(tmp_path), place(tmp_path, b"first"))
    found = read(tmp_path)
    assert (bodies(found), streams_of(found), found.torn) == ([b"second", b"third"], [(1,)], None)


def test_a_flip_anywhere_in_the_first_bytes_of_a_file_loses_nothing_or_is_named(tmp_path: Path) -> None:
    """Where version one had a header, which cost the whole file."""
    last_of(tmp_path).seal()
    path = the_file(tmp_path)
    whole, start = path.read_bytes(), place(tmp_path, b"first")
    for position in range(start + 5):
        flip(path, position)
        found = read(tmp_path)
        if position < start:
            assert (bodies(found), found.damages) == ([b"first", b"second", b"third"], [])
        else:
            assert (bodies(found), streams_of(found)) == ([b"second", b"third"], [(1,)])
        path.write_bytes(whole)


def test_a_torn_group_does_not_come_back_in_parts(tmp_path: Path) -> None:
    """Its first record is lost: the second one, which is whole, must not be believed, now or later."""
    last_of(tmp_path)
    path, position = the_file(tmp_path), place(tmp_path, b"second")
    data = bytearray(path.read_bytes())
    data[position - FRAME_BYTES : position + 6] = bytes(FRAME_BYTES + 6)
    path.write_bytes(data)
    assert (bodies(read(tmp_path)), read(tmp_path).damages) == ([b"first"], [])
    journal = opened(tmp_path)
    for body in (b"2nd", b"3rd"):
        append(journal, body)
    assert (bodies(read(tmp_path)), read(tmp_path).damages) == ([b"first", b"2nd", b"3rd"], [])


def test_a_seal_behind_a_lost_range_proves_nothing_that_a_later_file_replaces(tmp_path: Path) -> None:
    """A machine that went down may have written a seal and not what it seals. A prefix was taken, and went on."""
    last_of(tmp_path).seal()
    path, position = the_file(tmp_path), place(tmp_path, b"second")
    data = bytearray(path.read_bytes())
    end = bytes(data).index(b"third") + 5
    data[position - FRAME_BYTES : end] = bytes(end - position + FRAME_BYTES)
    path.write_bytes(data)
    found = read(tmp_path)
    assert found.unknown
    (tmp_path / f"journal-{2:020d}-{2:08d}-1000.log").write_bytes(bytes(1_000))
    assert (read(tmp_path).damages, read(tmp_path).last) == ([], 1)


def test_a_missing_last_file_is_damage(tmp_path: Path) -> None:
    journal = last_of(tmp_path)
    journal.roll()
    append(journal, b"fourth")
    needed = journal.needed_after(0)
    the_file(tmp_path).unlink()
    for found in (read(tmp_path, needed=needed), read(tmp_path)):
        assert bodies(found) == [b"first", b"second", b"third"]
        [damage] = found.unknown
        assert "file 2 is missing" in damage.problem


def test_a_missing_file_in_the_middle_is_damage(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for body in (b"first", b"second", b"third"):
        append(journal, body)
        journal.roll()
    _, middle, _ = sorted(tmp_path.glob("journal-*"))
    middle.unlink()
    found = read(tmp_path)
    assert bodies(found) == [b"first", b"third"]
    [damage] = found.unknown
    assert damage.problem == "changes 2 to 2 are missing"


def test_a_missing_first_file_that_is_needed_is_damage_and_one_that_is_not_is_none(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"first")
    journal.roll()
    append(journal, b"second")
    min(tmp_path.glob("journal-*")).unlink()
    assert [damage.problem for damage in read(tmp_path).unknown] == ["changes 1 to 1 are missing"]
    assert read(tmp_path, applied=1).damages == []


@pytest.mark.parametrize("lost", [1, 500])
def test_a_shortened_last_file_is_damage(tmp_path: Path, lost: int) -> None:
    last_of(tmp_path).seal()
    cut(the_file(tmp_path), 1_000 - lost)
    [damage] = read(tmp_path).unknown
    assert damage.problem == f"it has {1_000 - lost} of its 1000 bytes; the last changes may be lost"


def test_all_files_missing_is_damage_when_they_were_needed(tmp_path: Path) -> None:
    journal = last_of(tmp_path)
    needed = journal.needed_after(0)
    the_file(tmp_path).unlink()
    assert read(tmp_path, needed=needed).unknown
    assert read(tmp_path, applied=3, needed=Needed(2, 1)).damages == []


GROUPS = st.lists(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4), min_size=1, max_size=12)


def written(folder: Path, groups: list[list[bytes]]) -> tuple[Path, int, int]:
    """Append groups. Gives the file of the last one, and where that begins and ends."""
    disk = WatchedDisk()
    journal = opened(folder, disk)
    for group in groups:
        append(journal, *group)
    path, end = journal.files[-1][0].path, journal.files[-1][1]
    disk.abandon()
    return path, end - sum(FRAME_BYTES + len(body) for body in groups[-1]), end


@settings(max_examples=150, deadline=None, database=None)
@given(groups=GROUPS, data=st.data())
def test_whatever_a_crash_leaves_of_the_last_group_the_others_are_whole(
    groups: list[list[bytes]], data: st.DataObject
) -> None:
    """The group is there up to some record, and nothing is taken for damage."""
    with scratch_folder() as name:
        path, start, end = written(Path(name), groups)
        log = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            first = data.draw(st.integers(start, end - 1))
            size = data.draw(st.integers(1, end - first))
            log[first : first + size] = data.draw(st.sampled_from([bytes(size), b"\xff" * size]))
        path.write_bytes(log)
        found, before = read(Path(name)), [body for group in groups[:-1] for body in group]
        assert found.damages == []
        assert bodies(found) == before + groups[-1][: len(found.records) - len(before)]
        assert found.torn is None or set(found.torn.streams) <= {1}


@settings(max_examples=200, deadline=None, database=None)
@given(groups=GROUPS, data=st.data())
def test_whatever_is_damaged_of_what_was_acknowledged_is_told(groups: list[list[bytes]], data: st.DataObject) -> None:
    """Every change is read as it was, or is among what is lost."""
    with scratch_folder() as name:
        folder = Path(name)
        opened(folder).close(trimmed=False)
        path, _, end = written(folder, groups)
        journal = opened(folder, applied=0)
        journal.close(trimmed=False)
        first = data.draw(st.integers(0, end - 1))
        size = data.draw(st.integers(1, min(400, end - first)))
        log = bytearray(path.read_bytes())
        log[first : first + size] = data.draw(st.sampled_from([bytes(size), b"\xff" * size]))
        path.write_bytes(log)
        found, sent = read(folder), [body for group in groups for body in group]
        assert all(sent[record.number - 1] == record.body for record in found.records)
        missing = set(range(1, len(sent) + 1)) - {record.number for record in found.records}
        named = {lost.number for lost in found.lost}
        assert (missing == named) or (missing > named and found.unknown)
