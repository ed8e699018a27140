"""Repairing rows, manifests and snapshots: what follows from something else is made anew."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.storage import OsDisk, StoreError
from everbrook.storage.base_rows import INCARNATION, PLACE
from everbrook.storage.codec import pack_head, pack_identity
from everbrook.storage.file_blobs import FileBlobs, blob_path
from everbrook.storage.hold import Hold
from tests.kit.damage import flip
from tests.kit.drafts import Draft
from tests.kit.stores import Rows, commit, inspect, journal_file, rows
from tests.unit.storage.check.repairs import (
    FORK,
    JSON,
    LONG,
    MORTAL,
    TEXT,
    WHOLE,
    contents,
    make_killed,
    open_again,
    repair,
    streams_of,
)


@pytest.fixture(params=["acid", "file"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return make_killed(tmp_path, request.param)


# Rows


def test_a_stream_whose_row_is_lost_is_set_aside(store: Path) -> None:
    with rows(store) as changed:
        changed.damage("streams", INCARNATION.pack(MORTAL))
    lines = repair(store)
    assert lines[0].startswith("stream 'mortal' is lost with its row; stream-0000000000000004-from-0.bytes has")
    assert contents(store) == {name: data for name, data in WHOLE.items() if name != b"mortal"}
    assert (store / "lost+found" / "stream-0000000000000004-from-0.bytes").read_bytes() == b"soon over"


TWIN = pack_identity(Draft(b"mortal", 77).head.identity) + pack_head(Draft(b"mortal", 77).head)
"""The row of a stream that claims the name of another one."""
Change = Callable[[Rows], None]
CHANGES: list[Change] = [
    lambda rows: rows.delete("names", b"mortal"),
    lambda rows: rows.damage("names", b"mortal"),
    lambda rows: rows.put("names", b"mortal", INCARNATION.pack(LONG)),
    lambda rows: rows.put("names", b"nobody", INCARNATION.pack(99)),
    lambda rows: rows.put("streams", INCARNATION.pack(77), TWIN),
    lambda rows: rows.delete("mortal", INCARNATION.pack(MORTAL)),
    lambda rows: rows.put("mortal", INCARNATION.pack(TEXT), b""),
    lambda rows: rows.damage("forks", PLACE.pack(TEXT, FORK)),
    lambda rows: rows.delete("forks", PLACE.pack(TEXT, FORK)),
    lambda rows: rows.put("forks", PLACE.pack(JSON, FORK), b""),
    lambda rows: rows.put("forks", b"key", b""),
    lambda rows: rows.damage("producers", INCARNATION.pack(TEXT) + b"some-producer"),
    lambda rows: rows.put("producers", INCARNATION.pack(99) + b"p", bytes(24)),
    lambda rows: rows.put("indexes", PLACE.pack(99, 0), b""),
    lambda rows: rows.put("chunks", b"key", b""),
    lambda rows: rows.put("removals", b"key", b""),
    lambda rows: rows.damage("meta", b"opened"),
    lambda rows: rows.damage("meta", b"manifest"),
    lambda rows: rows.damage("meta", b"incarnation"),
    lambda rows: rows.damage("meta", b"journal"),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_rows_that_follow_from_others_are_made_anew(acid: Path, change: Change) -> None:
    with rows(acid) as changed:
        change(changed)
    assert not inspect(acid).sound
    repair(acid)
    assert contents(acid) == WHOLE


@pytest.mark.parametrize("damage", ["damaged", "gone", "both"])
def test_a_manifest_is_restored_from_its_copy_and_the_other_way_round(store: Path, damage: str) -> None:
    if damage == "gone":
        (store / "manifest.json").unlink()
    else:
        (store / "manifest.json").write_text("{")
    if damage == "both":
        with rows(store) as changed:
            changed.damage("meta", b"manifest")
    repair(store)
    assert contents(store) == WHOLE


def test_which_changes_are_in_the_base_can_not_be_guessed(acid: Path) -> None:
    with rows(acid) as changed:
        changed.damage("meta", b"applied")
    with pytest.raises(StoreError, match="restore a backup"):
        repair(acid)
    assert journal_file(acid).exists()


def test_after_a_close_it_does_not_matter_which_changes_are_in_the_base(acid: Path) -> None:
    open_again(acid).close()
    with rows(acid) as changed:
        changed.damage("meta", b"applied")
    repair(acid)
    assert contents(acid) == WHOLE


# Snapshots


def publish(store: Path) -> None:
    """Add a stream with a snapshot."""
    storage, stream = open_again(store), Draft(b"summed", 40)
    draft = storage.blobs.begin(40, 41)
    draft.write(b"the sum")
    draft.finish()
    cut = (stream.write(b"before"),), (stream.write(b"after"),), (stream.cut(6, blob=41, content=b"the sum"),)
    commit(storage, *cut)
    storage.close()


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_snapshot_that_is_lost_is_given_up(store: Path, damage: str) -> None:
    publish(store)
    path = blob_path(store / "blobs", 40, 41)
    if damage == "gone":
        path.unlink()
    else:
        flip(path, 2)
    assert "the snapshot of stream 'summed' is given up" in repair(store)
    summed = streams_of(store)[b"summed"]
    assert summed.data == b"after"
    assert summed.head.kept.snapshot
    assert summed.head.kept.snapshot.automatic


def test_the_snapshot_of_a_cut_stream_goes_with_it(store: Path) -> None:
    publish(store)
    with rows(store) as changed:
        changed.put("damaged", INCARNATION.pack(40), bytes((11, *bytes(7))) + b"for a test")
    repair(store)
    summed = streams_of(store)[b"summed"].head
    assert summed.identity.incarnation != 40
    snapshot = summed.kept.snapshot
    assert snapshot
    assert snapshot.owner == summed.identity.incarnation
    reader = FileBlobs(OsDisk(), store / "blobs", Hold(OsDisk())).open(snapshot.owner, snapshot.blob, snapshot.size)
    assert reader.read(100) == b"the sum"


def test_a_snapshot_of_more_than_is_left_is_given_up(store: Path) -> None:
    storage, stream = open_again(store), Draft(b"summed", 40)
    draft = storage.blobs.begin(40, 41)
    draft.write(b"the sum")
    draft.finish()
    writes = (stream.write(b"before"),), (stream.write(b"after"),)
    commit(storage, *writes, (stream.cut(6, blob=41, content=b"the sum", snapshot_at=11),))
    storage.close()
    with rows(store) as changed:
        changed.put("damaged", INCARNATION.pack(40), bytes((8, *bytes(7))) + b"for a test")
    repair(store)
    head = streams_of(store)[b"summed"].head
    assert (head.tail, head.kept.earliest) == (6, 6)
    assert head.kept.snapshot
    assert head.kept.snapshot.automatic


# Anything


@pytest.mark.parametrize("seed", range(24))
def test_whatever_is_damaged_can_be_repaired(store: Path, seed: int) -> None:
    """Several rows and files at once. What the names lead to afterwards begins as it did."""
    publish(store)
    chance = random.Random(seed)
    with rows(store) as changed:
        databases = ["names", "streams", "producers", "forks", "chunks", "indexes", "mortal"]
        for database in chance.sample(databases, chance.randrange(1, 4)):
            key = chance.choice(changed.keys(database))
            row = changed.get_raw(database, key)
            place, bit = chance.randrange(len(row)), 1 << chance.randrange(8)
            changed.put_raw(database, key, row[:place] + bytes((row[place] ^ bit,)) + row[place + 1 :])
    paths = sorted(path for part in ("streams", "blobs", "journal") for path in (store / part).rglob("*.*"))
    for path in chance.sample(paths, min(len(paths), chance.randrange(3))):
        flip(path, chance.randrange(min(path.stat().st_size, 400)))
    damages = inspect(store).damages
    repair(store)
    left = contents(store)
    assert left == {name: data for name, data in (WHOLE | {b"summed": b"after"}).items() if name in left} or damages
    for name, data in left.items():
        assert (WHOLE | {b"summed": b"after", b"gone": b"dropped later"})[name].startswith(data)
