"""The contract: blobs are written once, read piece by piece, and removed."""

import pytest

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage.api import BlobReader, Blobs
from tests.unit.storage.engines import Store

PIECES = [b"a" * 1000, b"b" * 70_000, b"", b"c"]
CONTENT = b"".join(PIECES)


def write(blobs: Blobs, owner: int, number: int, *pieces: bytes) -> None:
    draft = blobs.begin(owner, number)
    for piece in pieces:
        draft.write(piece)
    draft.finish()


def read(reader: BlobReader, size: int = 4096) -> bytes:
    parts = []
    while part := reader.read(size):
        assert len(part) <= size
        parts.append(part)
    reader.close()
    return b"".join(parts)


def everything(blobs: Blobs) -> list[tuple[int, int]]:
    return sorted(blob for some in blobs.all() for blob in some)


def test_there_are_none_at_first(store: Store) -> None:
    assert everything(store.storage.blobs) == []


@pytest.mark.parametrize("size", [1, 4096, 1_000_000])
def test_a_blob_is_read_as_it_was_written(store: Store, size: int) -> None:
    pieces = PIECES if size > 1 else PIECES[2:]
    write(store.storage.blobs, 7, 1, *pieces)
    assert read(store.storage.blobs.open(7, 1, len(b"".join(pieces))), size) == b"".join(pieces)


def test_an_empty_blob_is_one(store: Store) -> None:
    write(store.storage.blobs, 7, 1)
    assert everything(store.storage.blobs) == [(7, 1)]
    assert read(store.storage.blobs.open(7, 1, 0)) == b""


def test_a_finished_blob_is_there_after_a_reopening(durable_store: Store) -> None:
    write(durable_store.storage.blobs, 2**63, 2**60, *PIECES)
    durable_store.reopen()
    assert everything(durable_store.storage.blobs) == [(2**63, 2**60)]
    assert read(durable_store.storage.blobs.open(2**63, 2**60, len(CONTENT))) == CONTENT


def test_blobs_are_told_apart_by_owner_and_number(store: Store) -> None:
    places = [(owner, number) for owner in (1, 2, 300) for number in (1, 2)]
    for owner, number in places:
        write(store.storage.blobs, owner, number, b"%d of %d" % (number, owner))
    assert everything(store.storage.blobs) == places
    for owner, number in places:
        content = b"%d of %d" % (number, owner)
        assert read(store.storage.blobs.open(owner, number, len(content))) == content


def test_a_removed_blob_is_gone(store: Store) -> None:
    write(store.storage.blobs, 7, 1, *PIECES)
    write(store.storage.blobs, 7, 2, b"other")
    store.storage.blobs.remove(7, 1)
    assert everything(store.storage.blobs) == [(7, 2)]
    with pytest.raises(StreamDamaged, match=r"snapshot of the stream (was lost|is damaged .*: the file is missing)"):
        store.storage.blobs.open(7, 1, len(CONTENT))


def test_removing_what_is_not_there_does_nothing(store: Store) -> None:
    store.storage.blobs.remove(7, 1)
    assert everything(store.storage.blobs) == []


def test_what_is_being_read_stays_readable_when_it_is_removed(store: Store) -> None:
    write(store.storage.blobs, 7, 1, *PIECES)
    reader = store.storage.blobs.open(7, 1, len(CONTENT))
    first = reader.read(10)
    store.storage.blobs.remove(7, 1)
    assert first + read(reader) == CONTENT


def test_an_abandoned_blob_is_gone(store: Store) -> None:
    used_bytes = store.storage.used_bytes
    draft = store.storage.blobs.begin(7, 1)
    draft.write(b"x" * 1000)
    draft.abandon()
    assert everything(store.storage.blobs) == []
    assert store.storage.used_bytes == used_bytes


def test_a_finished_blob_can_still_be_abandoned(store: Store) -> None:
    used_bytes = store.storage.used_bytes
    draft = store.storage.blobs.begin(7, 1)
    draft.write(b"x" * 1000)
    draft.finish()
    draft.abandon()
    assert everything(store.storage.blobs) == []
    assert store.storage.used_bytes == used_bytes


def test_two_blobs_can_be_written_at_once(store: Store) -> None:
    first, second = store.storage.blobs.begin(7, 1), store.storage.blobs.begin(7, 2)
    for piece in PIECES:
        first.write(piece)
        second.write(piece[:5])
    second.finish()
    first.finish()
    assert read(store.storage.blobs.open(7, 1, len(CONTENT))) == CONTENT
    assert read(store.storage.blobs.open(7, 2, 11)) == b"aaaaabbbbbc"
