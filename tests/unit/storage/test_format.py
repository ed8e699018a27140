"""`docs/format.md` says enough to read a store: here one is decoded by it, with none of our code."""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import replace

from everbrook.protocol import Claim, Fork, Head, Identity, Producer, Retention, Write
from everbrook.storage import ACID, FILE_DURABLE, FILE_FAST, DurableMode
from tests.kit.damage import flip
from tests.kit.drafts import NOW, Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, journal_files, killed

PAGE = Path(__file__).parents[3] / "docs" / "format.md"
FORMAT = PAGE.read_text(encoding="utf-8")


class Reader:
    """Takes fields off bytes, as the page describes them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:  # noqa: ANN401 - whatever the layout says
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values if len(values) > 1 else values[0]

    def text(self) -> bytes:
        return self.bytes(self.take("<H"))

    def bytes(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    @property
    def left(self) -> bool:
        return self.at < len(self.data)


def identity(reader: Reader) -> dict[str, Any]:
    incarnation, created_at, flags, ttl, expires_at = reader.take("<QqBqq")
    found = {"incarnation": incarnation, "created_at": created_at, "name": reader.text(), "type": reader.text()}
    if flags & 1:
        found["ttl"] = ttl
    if flags & 2:
        found["expires_at"] = expires_at
    if flags & 4:
        source, offset, anchor, sub_offset = reader.take("<QQQQ")
        found["fork"] = (source, offset, anchor if flags & 8 else None, sub_offset, reader.text())
    if flags & 16:
        found["inherited"] = kept(reader)
    if flags & 32:
        found["policy"] = reader.take("<QQQ")
    return found


def kept(reader: Reader) -> tuple[int, dict[str, Any] | None]:
    earliest, has_snapshot = reader.take("<QB")
    if not has_snapshot:
        return earliest, None
    names = ("offset", "published_at", "size", "owner", "blob")
    snapshot = dict(zip(names, reader.take("<QqQQQ"), strict=True))
    return earliest, snapshot | {"digest": reader.bytes(32), "type": reader.text()}


def head(reader: Reader) -> dict[str, Any]:
    tail, written_at, flags = reader.take("<QqB")
    found = {"tail": tail, "written_at": written_at, "flags": flags}
    if flags & 4:
        epoch, sequence = reader.take("<QQ")
        found["closer"] = (epoch, sequence, reader.text())
    if flags & 8:
        found["stream_seq"] = reader.text()
    if flags & 64:
        found["kept"] = kept(reader)
    return found


def payload(reader: Reader, flags: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if flags & 16:
        place = reader.take("<QQq")
        found["position"] = reader.text() if flags & 128 else None
        found["producer"] = (*place, reader.text())
    if flags & 32:
        found["forgotten"] = [reader.text() for _ in range(reader.take("<I"))]
    length, messages = reader.take("<II")
    width, messages = ("<B", messages - 2**31) if messages >= 2**31 else ("<I", messages)
    lengths = [reader.take(width) for _ in range(messages)] if messages > 1 else [length] * messages
    found["messages"] = [reader.bytes(size) for size in lengths]
    return found


def edit(reader: Reader) -> dict[str, Any]:
    kind = reader.take("<B")
    if kind == 3:
        return {"kind": "drop"} | identity(reader)
    found = {"kind": "create"} | identity(reader) if kind == 1 else {"kind": "write", "incarnation": reader.take("<Q")}
    found |= head(reader)
    return found | payload(reader, found["flags"])


def edits(body: bytes) -> list[dict[str, Any]]:
    reader, found = Reader(body), []
    while reader.left:
        found.append(edit(reader))
    return found


def log(path: Path, salt: int = 7) -> Iterator[dict[str, Any]]:
    """Every record of a journal file, up to the first that does not verify."""
    _, first, use, size = path.stem.split("-")
    reader = Reader(path.read_bytes())
    assert len(reader.data) == int(size)
    seed = zlib.crc32(struct.pack("<QQQ", salt, int(first), int(use)))
    while reader.at + 36 <= len(reader.data):
        start = reader.at
        tag, checksum, body_checksum, length, number, durable, count, flags = reader.take("<4sIIIQQHH")
        streams = [reader.take("<Q") for _ in range(count)]
        if checksum != zlib.crc32(reader.data[start + 8 : reader.at], seed):
            return
        body = reader.bytes(length)
        assert tag == struct.pack("<I", zlib.crc32(b"record", seed))
        assert body_checksum == zlib.crc32(body, seed)
        yield {"number": number, "durable": durable, "flags": flags, "streams": streams, "body": body}


def written(folder: Path) -> list[tuple[int, int, list[dict[str, Any]]]]:
    paths = journal_files(folder)
    assert paths[0].name == f"journal-{1:020d}-{1:08d}-65536.log"
    records = [each for path in paths for each in log(path) if each["body"]]
    return [(each["number"], each["durable"], edits(each["body"])) for each in records]


# The journal


LONG = b"2" * 255 + b","
"""The length of this message takes more than a byte."""


def test_a_journal_is_decoded_by_hand(tmp_path: Path) -> None:
    text, batch = Draft(b"a/text", 7), Draft(b"b", 8, json=True)
    storage = HeldStorage(tmp_path)
    commit(storage, (text.write(b"one"),), (batch.write(b"1,", b"22,"),))
    commit(storage, (batch.write(b"1,", LONG),))
    commit(storage, (text.write(b"two", closed=True), batch.drop()))
    first, second, third, fourth = written(tmp_path)
    assert first == (
        1,
        0,
        [
            {
                "kind": "create",
                "incarnation": 7,
                "created_at": NOW,
                "name": b"a/text",
                "type": b"text/plain; charset=utf-8",
                "tail": 3,
                "written_at": NOW + 1,
                "flags": 0,
                "messages": [b"one"],
            }
        ],
    )
    assert (second[:2], second[2][0]["messages"], second[2][0]["tail"]) == ((2, 0), [b"1,", b"22,"], 5)
    assert third[2][0]["messages"] == [b"1,", LONG]
    assert fourth[:2] == (4, 3)
    write, drop = fourth[2]
    assert (write["kind"], write["incarnation"], write["flags"], write["messages"]) == ("write", 7, 1, [b"two"])
    assert (drop["kind"], drop["incarnation"], drop["name"]) == ("drop", 8, b"b")
    storage.close()


def test_frames_and_seals_are_decoded_by_hand(tmp_path: Path) -> None:
    one, two, storage = Draft(b"a", 7), Draft(b"b", 8), HeldStorage(tmp_path)
    commit(storage, (one.write(b"x"), two.write(b"y")))
    storage.seal()
    commit(storage, (one.write(b"z" * 100_000),))
    first, second = journal_files(tmp_path)
    frames = [(each["number"], each["durable"], each["flags"], each["streams"]) for each in log(first)]
    assert frames == [(1, 0, 0, [7, 8]), (1, 1, 0, []), (1, 1, 1, [])]
    assert second.name.startswith(f"journal-{2:020d}-{2:08d}-")
    assert [(each["number"], each["streams"]) for each in log(second)] == [(2, [7])]
    storage.close()


def test_everything_that_may_be_absent_is_decoded_by_hand(tmp_path: Path) -> None:
    source = Draft(b"s", 1)
    who = Identity(b"f", 2, b"a/b", b"a/b", 11, 60, 12, Fork(b"s", 1, 3, 1, 2))
    closed = Head(who, 5, 13, closed=True, closed_by=Claim(b"p", 4, 5), stream_seq=b"\xff", deleted=True)
    storage = HeldStorage(tmp_path)
    commit(storage, (source.write(b"one"),))
    commit(storage, (Write(closed, b"xy", (5,), b"p", Producer(4, 5, 6, b"line 7"), (b"q", b"r"), created=True),))
    [[made]] = [edits for number, _, edits in written(tmp_path) if number == 2]
    assert (made["ttl"], made["expires_at"], made["fork"]) == (60, 12, (1, 3, 1, 2, b"s"))
    assert (made["closer"], made["stream_seq"]) == ((4, 5, b"p"), b"\xff")
    assert (made["producer"], made["forgotten"], made["messages"]) == ((4, 5, 6, b"p"), [b"q", b"r"], [b"xy"])
    assert (made["position"], made["flags"]) == (b"line 7", 1 | 2 | 4 | 8 | 16 | 32 | 128)
    storage.close()


def test_what_was_torn_is_kept_under_the_name_that_the_page_gives(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path / "store")
    commit(storage, (Draft(b"a", 1).write(b"torn"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"torn"))
    HeldStorage(copy).close()
    assert [each.name for each in (copy / "lost+found").iterdir()] == [f"{path.stem}-0.torn"]


# The base


def base(folder: Path) -> dict[str, dict[bytes, bytes]]:
    """Every row of the base. The seals of those that have one are verified and taken off."""
    found: dict[str, dict[bytes, bytes]] = {}
    path = str(folder / "base")
    with lmdb.open(path, readonly=True, lock=False, max_dbs=16) as env, env.begin() as transaction:
        for name in [bytes(name).decode() for name, _ in transaction.cursor()]:
            database = env.open_db(name.encode(), txn=transaction, create=False)
            found[name] = {bytes(key): bytes(row) for key, row in transaction.cursor(database)}
    return {name: {key: unsealed(name, key, row) for key, row in each.items()} for name, each in found.items()}


def unsealed(name: str, key: bytes, row: bytes) -> bytes:
    if name == "chunks" and row[0] == 0:
        return row
    assert row[-4:] == struct.pack("<I", zlib.crc32(row[:-4], zlib.crc32(key)))
    return row[:-4]


def blocks(key: bytes, data: bytes) -> bytes:
    """The checksums of the blocks of a chunk."""
    starts = range(0, len(data), 8192)
    return b"".join(struct.pack("<I", zlib.crc32(data[s : s + 8192], zlib.crc32(key) ^ s)) for s in starts)


def inline(key: bytes, data: bytes) -> bytes:
    return b"\0" + data + blocks(key, data)


@pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "file"])
def test_the_base_is_decoded_by_hand(tmp_path: Path, mode: DurableMode) -> None:
    stream = Draft(b"json", 0x1234567890ABCDEF, json=True)
    stream.head = replace(stream.head, identity=replace(stream.head.identity, ttl_secs=60))
    storage = HeldStorage(tmp_path, mode=mode, boot="this one")
    commit(
        storage,
        (stream.write(b"1,", b"22,", producer=(b"p", Producer(1, 2, 3))),),
        (stream.write(b"333,", producer=(b"q", Producer(4, 5, 6, b"at 7"))),),
    )
    commit(storage, (Draft(b"fork", 99, source=stream, offset=5).write(b"x" * 20_000),))
    storage.close()
    found, key = base(tmp_path), struct.pack(">Q", stream.incarnation)
    names = "meta names streams producers forks chunks indexes mortal damaged removals"
    assert sorted(found) == sorted(names.split())
    assert found["names"] == {b"json": key, b"fork": struct.pack(">Q", 99)}
    row = Reader(found["streams"][key])
    assert (identity(row)["name"], head(row)["tail"], row.left) == (b"json", 9, False)
    assert struct.unpack("<QQq", found["producers"][key + b"p"]) == (1, 2, 3)
    assert struct.unpack("<QQqH4s", found["producers"][key + b"q"]) == (4, 5, 6, 4, b"at 7")
    assert found["forks"] == {key + struct.pack(">Q", 99): b""}
    assert found["mortal"] == {key: b""}
    place, fork = key + struct.pack(">Q", 0), struct.pack(">QQ", 99, 5)
    assert found["chunks"] == {place: inline(place, b"1,22,333,"), fork: inline(fork, b"x" * 20_000)}
    assert struct.unpack("<III3I2I2Q", found["indexes"][place]) == (3, 2, 2, 2, 5, 9, 5, 9, NOW + 1, NOW + 2)


def test_a_short_index_is_decoded_by_hand(tmp_path: Path) -> None:
    stream, lengths = Draft(b"json", 3, json=True), [2, 1_000, *[3] * 18]
    storage = HeldStorage(tmp_path, mode=ACID, chunk_bytes=65_530)
    commit(storage, (stream.write(b"x" * 65_530),), (stream.write(*(b"y" * length for length in lengths)),))
    storage.close()
    [first, second] = [found for _, found in sorted(base(tmp_path)["indexes"].items())]
    assert first == struct.pack("<3I2IQ", 1, 1, 1, 65_530, 65_530, NOW + 1)
    ends = list(accumulate(lengths, initial=65_530))[1:]
    reader = Reader(second)
    assert reader.take("<5I") == (2**31 + 20, 1, 1, 1_056, 2)
    assert reader.take("<2I") == (1, 19)
    assert reader.take("<20H") == tuple(end % 65_536 for end in ends)
    assert (reader.take("<I"), reader.take("<Q"), reader.left) == (ends[-1], NOW + 2, False)


def test_what_the_base_says_of_itself_is_decoded_by_hand(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path, mode=FILE_FAST, boot="this one")
    commit(storage, (Draft(b"a", 77).write(b"x"),), (Draft(b"b", 5).write(b"x"),))
    storage.close()
    meta, manifest = base(tmp_path)["meta"], (tmp_path / "manifest.json").read_bytes()
    assert meta[b"applied"] == struct.pack("<Q", 2)
    assert meta[b"incarnation"] == struct.pack("<Q", 77)
    assert meta[b"journal"] == struct.pack("<QQ", 2, 1)
    assert meta[b"manifest"] == manifest
    assert json.loads(manifest) == {"format": 2, "mode": "file", "salt": 7}
    assert json.loads(meta[b"opened"]) == {"sync": False, "boot": "this one"}


def test_a_mark_of_damage_is_decoded_by_hand(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path / "store"), Draft(b"a", 3)
    for data in (b"one", b"LOST", b"three"):
        commit(storage, (stream.write(data),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"LOST"))
    HeldStorage(copy).close()
    [(key, mark)] = base(copy)["damaged"].items()
    assert (key, mark[:8]) == (struct.pack(">Q", 3), struct.pack("<Q", 3))
    assert mark[8:].decode().startswith(f"journal/{path.name} at byte ")


# Segments


def segment(path: Path) -> Iterator[tuple[dict[str, Any], int, bytes, bytes]]:
    """Every chunk of a segment: its stream, its first offset, its index and its bytes."""
    reader = Reader(path.read_bytes())
    magic, checksum, length = reader.take("<4sII")
    assert (magic, checksum) == (b"EBS2", zlib.crc32(reader.data[8 : 12 + length]))
    stream = identity(Reader(reader.bytes(length)))
    while reader.left:
        start = reader.at
        magic, checksum, first, index_length, length = reader.take("<4sIQII")
        index, key = reader.bytes(index_length), struct.pack(">QQ", stream["incarnation"], first)
        assert (magic, checksum) == (b"EBC2", zlib.crc32(reader.data[start + 8 : reader.at], zlib.crc32(key)))
        data = reader.bytes(length)
        assert reader.bytes(4 * -(-length // 8192)) == blocks(key, data)
        yield stream, first, index, data


def test_the_segments_of_a_stream_are_decoded_by_hand(tmp_path: Path) -> None:
    stream = Draft(b"a/text", 3)
    storage = HeldStorage(tmp_path, mode=FILE_DURABLE, chunk_bytes=20_000, segment_bytes=50_000)
    commit(storage, *((stream.write(bytes([number]) * 10_000),) for number in range(12)), (stream.write(b"tail"),))
    storage.close()
    folder = tmp_path / "streams" / f"{3 * 0x9E3779B97F4A7C15 % 2**64 >> 56:02x}"
    paths = [folder / f"0000000000000003-{start:016d}.log" for start in (0, 40_000, 80_000)]
    assert sorted(folder.iterdir()) == paths
    found, data = base(tmp_path), b""
    for path in paths:
        for identified, first, index, chunk in segment(path):
            key = struct.pack(">QQ", 3, first)
            assert (identified["name"], first, found["indexes"][key]) == (b"a/text", len(data), index)
            kind, start, position, length = struct.unpack_from("<BQQI", found["chunks"][key])
            assert (kind, start, length) == (1, int(path.stem[17:]), len(chunk))
            assert path.read_bytes()[position : position + length] == chunk
            assert found["chunks"][key][21:] == blocks(key, chunk)
            data += chunk
    tail = struct.pack(">QQ", 3, 120_000)
    assert found["chunks"][tail] == inline(tail, b"tail")
    assert data + b"tail" == stream.data


# Snapshots

SUMMED = {
    "offset": 150_000,
    "published_at": NOW,
    "size": 3,
    "owner": 1,
    "blob": 0x2A,
    "digest": hashlib.sha256(b"sum").digest(),
    "type": b"text/x-sum",
}


def write_snapshots(storage: HeldStorage) -> None:
    """A bucket with a policy, a stream that was cut, and a fork of it that has its snapshot, and a policy too."""
    policy = Retention(max_age_secs=60, max_messages=5)
    bucket = Identity(b"bucket/agents", 9, b"application/json", b"application/json", NOW, retention=policy)
    commit(storage, (Write(Head(bucket, 0, NOW), created=True),))
    stream = Draft(b"/ds/agents/s", 1)
    commit(storage, *((stream.write(b"x" * 100_000),) for _ in range(3)))
    blob = storage.blobs.begin(1, 0x2A)
    blob.write(b"sum")
    blob.finish()
    commit(storage, (stream.cut(120_000, snapshot_at=150_000, blob=0x2A, content=b"sum"),))
    fork = Draft(b"/ds/agents/f", 0x2B, source=stream, offset=200_000)
    fork.head = replace(fork.head, identity=replace(fork.head.identity, retention=policy))
    commit(storage, (fork.write(b"of the fork"),))
    commit(storage, (stream.write(b"y"),))


def test_snapshots_policies_and_buckets_are_decoded_by_hand_in_the_journal(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path)
    write_snapshots(storage)
    bucket, *_, cut, fork, last = [made for _, _, [made] in written(tmp_path)]
    assert (bucket["name"], bucket["policy"], bucket["type"]) == (b"bucket/agents", (60, 0, 5), b"application/json")
    assert (cut["flags"], cut["kept"], cut["messages"]) == (64, (120_000, SUMMED), [])
    assert (fork["inherited"], fork["policy"], fork["flags"]) == ((120_000, SUMMED), (60, 0, 5), 0)
    assert (last["flags"], last["messages"]) == (0, [b"y"])
    storage.close()


def test_snapshots_policies_and_buckets_are_decoded_by_hand_in_the_base(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path)
    write_snapshots(storage)
    storage.close()
    storage = HeldStorage(tmp_path)
    storage.discard(1)
    storage.close()
    found = base(tmp_path)
    streams = {int.from_bytes(key, "big"): Reader(row) for key, row in found["streams"].items()}
    heads = {key: identity(row) | head(row) for key, row in streams.items()}
    assert not any(row.left for row in streams.values())
    assert (heads[1]["flags"], heads[1]["kept"], heads[1]["tail"]) == (64, (120_000, SUMMED), 300_001)
    assert (heads[0x2B]["kept"], heads[0x2B]["inherited"]) == ((120_000, SUMMED), (120_000, SUMMED))
    assert (heads[9]["policy"], heads[0x2B]["policy"]) == ((60, 0, 5), (60, 0, 5))
    assert {key[-1] for key in found["mortal"]} == {9, 0x2B}
    starts = [struct.unpack(">QQ", key) for key in found["chunks"]]
    assert starts == [(1, 100_000), (1, 200_000), (0x2B, 200_000)]
    assert found["indexes"].keys() == found["chunks"].keys()


def test_a_blob_is_found_and_read_by_hand(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path)
    write_snapshots(storage)
    storage.close()
    folder = tmp_path / "blobs" / f"{1 * 0x9E3779B97F4A7C15 % 2**64 >> 56:02x}"
    data = (folder / f"{1:016x}-{0x2A:016x}.blob").read_bytes()
    checksum = zlib.crc32(b"sum", zlib.crc32(struct.pack(">QQ", 1, 0x2A)))
    assert data == b"sum" + struct.pack("<I", checksum)


@pytest.mark.parametrize(
    "stated",
    [
        "### Record: `<4sIIIQQHH`, streams, and a body",
        '`crc32(pack("<QQQ", salt, first, use))`',
        '`crc32(b"record", seed)` as `<I`',
        "`crc32(body, seed)`",
        "`<QqBqq`",
        "`<QqB`",
        "`crc32(value, crc32(key))`",
        "`crc32(block, crc32(key) ^ start)`",
        "`<BQQI`: 1,",
        "`<4sII`, and an identity",
        "`EBS2`",
        "`<4sIQII`, index, bytes and checksums",
        "`EBC2`",
        "`>QQ` incarnation, offset of its first byte",
        "`i * 0x9E3779B97F4A7C15 % 2**64 >> 56`",
        "`owner * 0x9E3779B97F4A7C15 % 2**64 >> 56`",
        "`lost+found/journal-…-POSITION.torn`",
        "### Kept: `<QB`",
        "| *with flag 32:* policy | `<QQQ` |",
        "| digest | 32 bytes |",
    ],
)
def test_the_page_states_what_this_test_uses(stated: str) -> None:
    assert stated in FORMAT
