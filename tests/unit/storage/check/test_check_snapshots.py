"""Checking stores with snapshots and streams that were cut: blobs are verified, and what was cut is not missed."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from everbrook.protocol import Kept
from everbrook.storage import OsDisk, Storage
from everbrook.storage.base_rows import INCARNATION, PLACE
from everbrook.storage.codec import pack_head, pack_identity
from everbrook.storage.file_blobs import FileBlobs, blob_path
from everbrook.storage.hold import Hold
from tests.kit.damage import cut as cut_off, flip
from tests.kit.drafts import Draft
from tests.kit.stores import commit, inspect, open_acid, open_files, rows

CONTENT = b"the sum of it all"
CHUNK = b"x" * 100_000


def publish(storage: Storage, stream: Draft, offset: int, blob: int) -> None:
    draft = storage.blobs.begin(stream.incarnation, blob)
    draft.write(CONTENT)
    draft.finish()
    commit(storage, (stream.cut(offset, blob=blob, content=CONTENT),))
    storage.discard(stream.incarnation)


def fill(storage: Storage) -> Draft:
    """A stream of three chunks that was cut in the second, and a fork that has its snapshot too."""
    stream = Draft(b"cut", 1)
    commit(storage, *((stream.write(CHUNK),) for _ in range(3)))
    publish(storage, stream, 100_000, blob=50)
    fork = Draft(b"fork", 60, source=stream, offset=200_000)
    commit(storage, (fork.write(b"of the fork"),))
    return stream


@pytest.fixture(params=["base", "journal", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store that was closed, or the acid one with all of it in the journal."""
    if request.param == "file":
        storage: Storage = open_files(tmp_path)
        fill(storage)
        storage.close()
        return tmp_path
    storage = open_acid(tmp_path)
    stream = fill(storage)
    if request.param == "journal":
        storage.persist([(stream.write(b"never applied"),)])
    storage.close()
    return tmp_path


def blob(store: Path) -> Path:
    return blob_path(store / "blobs", 1, 50)


def test_a_store_with_a_snapshot_verifies(store: Path) -> None:
    checked = inspect(store)
    assert (checked.damages, checked.remarks) == ([], [])
    assert checked.tally.streams == 2


def test_a_snapshot_that_is_gone_is_damage_named_by_its_stream(store: Path) -> None:
    blob(store).unlink()
    [damage] = inspect(store).damages
    assert damage == f"{blob(store).relative_to(store)}: the snapshot of stream 'cut' at offset 100000 is missing"


def test_a_snapshot_with_a_flipped_byte_is_damage(store: Path) -> None:
    for place in (3, len(CONTENT) + 1):
        flip(blob(store), place)
        [damage] = inspect(store).damages
        assert "the snapshot of stream 'cut' at offset 100000 is not what was published" in damage
        assert damage.endswith("the checksum of a block is wrong")
        flip(blob(store), place)


def test_another_snapshot_with_checksums_of_its_own_is_damage(store: Path) -> None:
    blob(store).unlink()
    draft = FileBlobs(OsDisk(), store / "blobs", Hold(OsDisk())).begin(1, 50)
    draft.write(CONTENT[::-1])
    draft.finish()
    [damage] = inspect(store).damages
    assert damage.endswith("is not what was published: its SHA-256 is another")


def test_a_snapshot_that_was_cut_off_is_damage(store: Path) -> None:
    cut_off(blob(store), 20)
    [damage] = inspect(store).damages
    assert "the snapshot of stream 'cut' at offset 100000 is a file of 20 bytes, and should have 21" in damage


def test_a_blob_that_no_snapshot_has_is_told_and_fine(store: Path) -> None:
    for number in (51, 52):
        blob_path(store / "blobs", 1, number).write_bytes(b"left by a crash")
    checked = inspect(store)
    assert (checked.damages, checked.remarks) == (
        [],
        ["2 blobs belong to no snapshot; the next start removes them"],
    )


def test_an_automatic_snapshot_needs_no_blob(tmp_path: Path) -> None:
    stream, storage = Draft(b"a", 1), open_acid(tmp_path)
    commit(storage, (stream.write(b"x"),), (stream.cut(1),))
    storage.close()
    assert inspect(tmp_path).damages == []


def test_what_a_fork_began_with_is_no_orphan(tmp_path: Path) -> None:
    storage = open_acid(tmp_path)
    stream = fill(storage)
    publish(storage, stream, 300_000, blob=70)
    storage.close()
    checked = inspect(tmp_path)
    assert (checked.damages, checked.remarks) == ([], [])
    blob_path(tmp_path / "blobs", 1, 50).unlink()
    [damage] = inspect(tmp_path).damages
    assert "the snapshot of stream 'fork' at offset 100000 is missing" in damage


# What was cut


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A store with a stream in three chunks of which the first is gone."""
    stream, storage = Draft(b"a", 1), open_acid(tmp_path)
    commit(storage, *((stream.write(CHUNK),) for _ in range(3)), (stream.cut(150_000),))
    storage.close()
    storage = open_acid(tmp_path)
    storage.discard(1)
    storage.close()
    return tmp_path


def test_chunks_may_begin_where_a_stream_was_cut(cut: Path) -> None:
    with rows(cut) as there:
        assert there.get_raw("chunks", PLACE.pack(1, 0)) == b""
        assert there.get_raw("chunks", PLACE.pack(1, 100_000))[1 : 1 + len(CHUNK)] == CHUNK
    checked = inspect(cut)
    assert (checked.damages, checked.tally.stream_bytes) == ([], 150_000)


def test_a_chunk_that_is_retained_and_gone_is_damage(cut: Path) -> None:
    with rows(cut) as changed:
        changed.delete("chunks", PLACE.pack(1, 100_000))
        changed.delete("indexes", PLACE.pack(1, 100_000))
    assert any("its first bytes are missing" in damage for damage in inspect(cut).damages)


def test_chunks_that_a_fork_needs_and_are_gone_are_damage(cut: Path) -> None:
    storage, source = open_acid(cut), Draft(b"a", 1)
    source.head = replace(source.head, kept=Kept(50_000))
    commit(storage, (Draft(b"f", 2, source=source, offset=200_000).write(),))
    storage.close()
    assert any("its first bytes are missing" in damage for damage in inspect(cut).damages)


def test_an_earliest_offset_behind_the_tail_is_damage(cut: Path) -> None:
    stream = Draft(b"a", 1)
    stream.write(CHUNK * 3)
    head = replace(stream.head, kept=Kept(300_001))
    with rows(cut) as changed:
        changed.put("streams", INCARNATION.pack(1), pack_identity(head.identity) + pack_head(head))
    assert any("its earliest offset 300001 is behind its tail 300000" in damage for damage in inspect(cut).damages)
