"""Damage in the middle is detected, reported with its place, and confined to what it hit."""

from pathlib import Path

import pytest

from everbrook.protocol import Producer
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import FileStorage, Record
from tests.storage.drafts import Draft
from tests.storage.files.opening import abandon, commit, contents, open_files, segments


def damage(path: Path, position: int) -> None:
    log = bytearray(path.read_bytes())
    log[position] ^= 0x40
    path.write_bytes(log)


def filled(folder: Path, segment_bytes: int = 2**20) -> tuple[Path, list[int]]:
    """Make a store of streams `a` and `b`. Gives the log of `a`, and where its records begin."""
    storage = open_files(folder, segment_bytes=segment_bytes)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"first"),), (two.write(b"other"),))
    path = next(path for path in segments(folder) if path.name.startswith("0000000000000001"))
    places = [20, path.stat().st_size]
    for data in (b"second", b"third"):
        commit(storage, (one.write(data),))
        places.append(path.stat().st_size)
    storage.close()
    return path, places


def test_every_damaged_byte_before_the_last_record_is_noticed(tmp_path: Path) -> None:
    path, (_, start, end, _) = filled(tmp_path)
    log = path.read_bytes()
    for position in [*range(4), *range(16, start, 7), *range(start, end)]:
        damage(path, position)
        storage = open_files(tmp_path)
        with pytest.raises(StreamDamaged):
            storage.load(b"a")
        storage.close()
        path.write_bytes(log)


def test_damage_is_reported_with_file_and_position(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, (_, start, _, _) = filled(tmp_path)
    damage(path, start + 30)
    storage = open_files(tmp_path)
    for _ in range(2):
        with pytest.raises(StreamDamaged):
            storage.load(b"a")
    storage.close()
    assert [(found.path, found.position) for found in storage.damages] == [(path, start)]
    assert caplog.messages == [f"{path} is damaged at byte {start}"]


@pytest.mark.parametrize("lost", [b"second", b""], ids=["bytes", "state"])
def test_a_record_that_is_missing_between_two_others_is_damage(tmp_path: Path, lost: bytes) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"first"),))
    [path] = segments(tmp_path)
    start = path.stat().st_size
    commit(storage, (stream.write(lost, producer=(b"p", Producer(0, 0, 1))) if lost else stream.write(),))
    end = path.stat().st_size
    commit(storage, (stream.write(b"third"),))
    storage.close()
    log = path.read_bytes()
    path.write_bytes(log[:start] + log[end:])
    storage = open_files(tmp_path)
    with pytest.raises(StreamDamaged):
        storage.load(b"a")
    storage.close()


def test_the_other_streams_keep_working(tmp_path: Path) -> None:
    path, (_, start, _, _) = filled(tmp_path)
    damage(path, start + 30)
    storage = open_files(tmp_path)
    with pytest.raises(StreamDamaged):
        storage.load(b"a")
    record = storage.load(b"b")
    assert record
    new = Draft(b"c", 3)
    commit(storage, (new.write(b"new"),))
    assert storage.read(2, 0, 5) == b"other"
    assert storage.read(3, 0, 3) == b"new"
    storage.close()


def test_a_lost_log_is_damage(tmp_path: Path) -> None:
    path, _ = filled(tmp_path)
    path.unlink()
    storage = open_files(tmp_path)
    with pytest.raises(StreamDamaged):
        storage.load(b"a")
    storage.close()


@pytest.fixture
def long_store(tmp_path: Path) -> FileStorage:
    """A stream in four segments of which the second is damaged."""
    path, _ = filled(tmp_path, segment_bytes=1)
    storage = open_files(tmp_path, segment_bytes=1)
    record = storage.load(b"a")
    assert record
    storage.close()
    second = path.with_name(path.name.replace("-00000000", "-00000001"))
    damage(second, second.stat().st_size - 2)
    return open_files(tmp_path)


def test_damage_in_an_older_segment_leaves_the_others_readable(long_store: FileStorage) -> None:
    assert long_store.load(b"a")
    assert long_store.read(1, 0, 5) == b"first"
    assert long_store.read(1, 11, 16) == b"third"
    for start, end in ((0, 6), (5, 11), (10, 12)):
        with pytest.raises(StreamDamaged):
            long_store.read(1, start, end)
    long_store.close()


def test_an_older_segment_that_was_cut_is_damage(tmp_path: Path) -> None:
    path, _ = filled(tmp_path, segment_bytes=1)
    second = path.with_name(path.name.replace("-00000000", "-00000001"))
    first_record_end = second.read_bytes().rindex(b"EBR1")
    second.write_bytes(second.read_bytes()[:first_record_end])
    storage = open_files(tmp_path)
    with pytest.raises(StreamDamaged):
        storage.read(1, 5, 11)
    storage.close()


def test_a_segment_that_lost_its_beginning_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    """Records behind it were written when its beginning was known to be on the disk: nothing may be cut."""
    storage = open_files(tmp_path, segment_bytes=1000)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"x" * 1000),))
    for data in (b"second", b"third"):
        commit(storage, (stream.write(data),))
    storage.close()
    _, path = segments(tmp_path)
    damage(path, 0)
    kept = path.read_bytes()
    storage = open_files(tmp_path, segment_bytes=1000)
    with pytest.raises(StreamDamaged):
        storage.load(b"a")
    storage.close()
    assert path.read_bytes() == kept


def store_with_forks(folder: Path) -> None:
    storage = open_files(folder)
    source, gone = Draft(b"s", 1), Draft(b"gone", 4)
    commit(storage, (source.write(b"one"),), (gone.write(b"x"),))
    commit(storage, (Draft(b"f", 2, source=source, offset=3).write(b"two"),), (gone.drop(),))
    commit(storage, (source.write(b"three"),))
    storage.close()


NAMES = [b"s", b"f", b"gone"]


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "damaged"])
def test_a_catalogue_is_made_anew_from_the_logs(tmp_path: Path, *, lost: bool) -> None:
    store_with_forks(tmp_path)
    storage = open_files(tmp_path)
    before = contents(storage, NAMES)
    commit(storage, (Draft(b"new", 5).write(b"x"),))
    commit(storage, (Draft(b"newer", 6).write(b"x"),))
    abandon(storage)
    [path] = tmp_path.glob("catalogue-*.log")
    if lost:
        path.unlink()
    else:
        damage(path, 30)
    storage = open_files(tmp_path)
    assert contents(storage, NAMES) == before
    assert storage.load(b"newer")
    assert [found.path for found in storage.damages] == ([] if lost else [path])
    stream = Draft(b"z", 7)
    commit(storage, (stream.write(b"again"),))
    storage.close()
    storage = open_files(tmp_path)
    assert storage.load(b"z") == Record(stream.head, {})
    storage.close()


def test_damage_in_the_middle_of_the_catalogue_loses_no_stream(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    [path] = tmp_path.glob("catalogue-*.log")
    places = []
    for number in range(1, 4):
        places.append(path.stat().st_size)
        commit(storage, (Draft(b"%d" % number, number).write(b"x"),))
    abandon(storage)
    damage(path, places[1] + 40)
    storage = open_files(tmp_path)
    assert [(found.path, found.position) for found in storage.damages] == [(path, places[1])]
    assert len(contents(storage, [b"1", b"2", b"3"])) == 3
    storage.close()


@pytest.mark.parametrize("place", [0, 1], ids=["beginning", "middle"])
def test_making_the_catalogue_anew_removes_nothing_of_a_damaged_stream(tmp_path: Path, place: int) -> None:
    path, places = filled(tmp_path)
    damage(path, places[place] + 30)
    kept = path.read_bytes()
    [catalogue] = tmp_path.glob("catalogue-*.log")
    catalogue.unlink()
    for _ in range(3):
        abandon(open_files(tmp_path))
    aside = path.with_suffix(".damaged")
    assert (path if place else aside).read_bytes() == kept
    storage = open_files(tmp_path)
    assert contents(storage, [b"b"])[b"b"][1] == b"other"
    if place:
        with pytest.raises(StreamDamaged):
            storage.load(b"a")
    storage.close()


def test_a_joint_change_is_done_again_for_the_streams_that_are_whole(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"first"),), (two.write(b"other"),))
    before = {path: path.read_bytes() for path in segments(tmp_path)}
    storage.persist([(one.write(b"x"), two.write(b"y"))])
    abandon(storage)
    for path, log in before.items():
        path.write_bytes(log)
    damage(next(path for path in before if path.name.startswith("0000000000000001")), 20)
    storage = open_files(tmp_path)
    assert storage.read(2, 0, 6) == b"othery"
    with pytest.raises(StreamDamaged):
        storage.load(b"a")
    storage.close()


def test_a_joint_change_is_not_put_behind_a_gap(tmp_path: Path) -> None:
    """Without syncs a machine may have lost what came before it. What is left of the stream stays readable."""
    storage = open_files(tmp_path, durable=False)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"first"),), (two.write(b"other"),))
    before = {path: path.read_bytes() for path in segments(tmp_path)}
    commit(storage, (one.write(b"lost"),))
    commit(storage, (one.write(b"x"), two.write(b"y")))
    abandon(storage)
    for path, log in before.items():
        path.write_bytes(log)
    storage = open_files(tmp_path, durable=False)
    found = contents(storage, [b"a", b"b"])
    assert (found[b"a"][1], found[b"b"][1]) == (b"first", b"othery")
    storage.close()
