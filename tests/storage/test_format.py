"""`docs/format.md` says enough to read a store: here a journal and a shard are decoded by it, with none of our code."""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import replace

from everbrook.protocol import Claim, Fork, Head, Identity, Producer, Retention, Write
from everbrook.storage import AcidStorage
from tests.storage.checking import commit, open_acid, open_files
from tests.storage.drafts import NOW, Draft

PAGE = Path(__file__).parents[2] / "docs" / "format.md"
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
        found["producer"] = (*reader.take("<QQq"), reader.text())
    if flags & 32:
        found["forgotten"] = [reader.text() for _ in range(reader.take("<I"))]
    length, messages = reader.take("<II")
    lengths = [reader.take("<I") for _ in range(messages)] if messages > 1 else [length] * messages
    found["messages"] = [reader.bytes(size) for size in lengths]
    return found


def edit(reader: Reader) -> dict[str, Any]:
    kind = reader.take("<B")
    if kind == 3:
        return {"kind": "drop"} | identity(reader)
    found = {"kind": "create"} | identity(reader) if kind == 1 else {"kind": "write", "incarnation": reader.take("<Q")}
    found |= head(reader)
    return found | payload(reader, found["flags"])


def log(data: bytes) -> Iterator[tuple[int, int, Reader]]:
    """Every record of a file: its number, what was synced before it, and its body."""
    reader = Reader(data)
    magic, salt, first, checksum = reader.take("<4sIQI")
    assert (magic, checksum) == (b"EBL1", zlib.crc32(data[:16]))
    while reader.left:
        start = reader.at
        magic, checksum, length, number, synced = reader.take("<4sIIQQ")
        assert (magic, checksum) == (b"EBR1", zlib.crc32(data[start + 8 : reader.at + length], salt))
        assert first == number or start > 20
        yield number, synced, Reader(reader.bytes(length))


def edits(body: Reader) -> list[dict[str, Any]]:
    found = []
    while body.left:
        found.append(edit(body))
    return found


def journal(data: bytes) -> list[tuple[int, int, list[dict[str, Any]]]]:
    return [(number, synced, edits(body)) for number, synced, body in log(data)]


def written(folder: Path) -> list[tuple[int, int, list[dict[str, Any]]]]:
    [path] = (folder / "journal").iterdir()
    assert path.name == "journal-00000000000000000001.log"
    return journal(path.read_bytes())


def test_a_journal_is_decoded_by_hand(tmp_path: Path) -> None:
    text, batch = Draft(b"a/text", 7), Draft(b"b", 8, json=True)
    storage = open_acid(tmp_path)
    commit(storage, (text.write(b"one"),), (batch.write(b"1,", b"22,"),))
    commit(storage, (text.write(b"two", closed=True), batch.drop()))
    first, second, third = written(tmp_path)
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
    assert third[:2] == (3, 2)
    write, drop = third[2]
    assert (write["kind"], write["incarnation"], write["flags"], write["messages"]) == ("write", 7, 1, [b"two"])
    assert (drop["kind"], drop["incarnation"], drop["name"]) == ("drop", 8, b"b")
    storage.close()


def test_everything_that_may_be_absent_is_decoded_by_hand(tmp_path: Path) -> None:
    source = Draft(b"s", 1)
    who = Identity(b"f", 2, b"a/b", b"a/b", 11, 60, 12, Fork(b"s", 1, 3, 1, 2))
    closed = Head(who, 5, 13, closed=True, closed_by=Claim(b"p", 4, 5), stream_seq=b"\xff", deleted=True)
    storage = open_acid(tmp_path)
    commit(storage, (source.write(b"one"),))
    commit(storage, (Write(closed, b"xy", (5,), b"p", Producer(4, 5, 6), (b"q", b"r"), created=True),))
    [[made]] = [edits for number, _, edits in written(tmp_path) if number == 2]
    assert (made["ttl"], made["expires_at"], made["fork"]) == (60, 12, (1, 3, 1, 2, b"s"))
    assert (made["closer"], made["stream_seq"]) == ((4, 5, b"p"), b"\xff")
    assert (made["producer"], made["forgotten"], made["messages"]) == ((4, 5, 6, b"p"), [b"q", b"r"], [b"xy"])
    assert made["flags"] == 1 | 2 | 4 | 8 | 16 | 32
    storage.close()


def shard_of(incarnation: int, count: int) -> int:
    bits = count.bit_length() - 1
    return (incarnation * 0x9E3779B97F4A7C15 % 2**64) >> (64 - bits) if bits else 0


def shard(folder: Path, number: int) -> dict[str, dict[bytes, bytes]]:
    """Every row of a shard, its seal verified and taken off."""
    names = ("meta", "names", "streams", "producers", "forks", "chunks", "indexes", "mortal", "damaged")
    found: dict[str, dict[bytes, bytes]] = {name: {} for name in names}
    path = str(folder / f"shard-{number:03d}")
    with lmdb.open(path, readonly=True, lock=False, max_dbs=16) as env, env.begin() as transaction:
        for name in names:
            for key, sealed in transaction.cursor(env.open_db(name.encode(), txn=transaction, create=False)):
                value, seal = sealed[:-4], sealed[-4:]
                assert seal == struct.pack("<I", zlib.crc32(value, zlib.crc32(key)))
                found[name][key] = value
    return found


@pytest.mark.parametrize("count", [1, 8])
def test_a_shard_is_decoded_by_hand(tmp_path: Path, count: int) -> None:
    stream = Draft(b"json", 0x1234567890ABCDEF, json=True)
    stream.head = replace(stream.head, identity=replace(stream.head.identity, ttl_secs=60))
    storage = open_acid(tmp_path, count)
    commit(storage, (stream.write(b"1,", b"22,", producer=(b"p", Producer(1, 2, 3))),), (stream.write(b"333,"),))
    fork = Draft(b"fork", 99, source=stream, offset=5)
    commit(storage, (fork.write(b"x" * 200_000),))
    storage.close()
    assert json.loads((tmp_path / "manifest.json").read_text()) == {"format": 1, "mode": "acid", "shard_count": count}
    rows, key = shard(tmp_path, shard_of(stream.incarnation, count)), struct.pack(">Q", stream.incarnation)
    assert rows["meta"] == {b"applied": struct.pack("<Q", 3)}
    names = shard(tmp_path, zlib.crc32(b"json") % count)["names"]
    assert names[b"json"] == key
    row = Reader(rows["streams"][key])
    assert (identity(row)["name"], head(row)["tail"], row.left) == (b"json", 9, False)
    assert struct.unpack("<QQq", rows["producers"][key + b"p"]) == (1, 2, 3)
    assert rows["forks"] == {key + struct.pack(">Q", 99): b""}
    assert rows["mortal"] == {key: b""}
    assert rows["chunks"][key + struct.pack(">Q", 0)] == b"1,22,333,"
    index = rows["indexes"][key + struct.pack(">Q", 0)]
    assert struct.unpack("<III3I2I2Q", index) == (3, 2, 2, 2, 5, 9, 5, 9, NOW + 1, NOW + 2)
    forked = shard(tmp_path, shard_of(99, count))["chunks"]
    assert forked[struct.pack(">QQ", 99, 5)] == b"x" * 200_000


SUMMED = {
    "offset": 150_000,
    "published_at": NOW,
    "size": 3,
    "owner": 1,
    "blob": 0x2A,
    "digest": hashlib.sha256(b"sum").digest(),
    "type": b"text/x-sum",
}


def write_snapshots(storage: AcidStorage) -> None:
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
    storage = open_acid(tmp_path)
    write_snapshots(storage)
    bucket, *_, cut, fork, last = [made for _, _, [made] in written(tmp_path)]
    assert (bucket["name"], bucket["policy"], bucket["type"]) == (b"bucket/agents", (60, 0, 5), b"application/json")
    assert (cut["flags"], cut["kept"], cut["messages"]) == (64, (120_000, SUMMED), [])
    assert (fork["inherited"], fork["policy"], fork["flags"]) == ((120_000, SUMMED), (60, 0, 5), 0)
    assert (last["flags"], last["messages"]) == (0, [b"y"])
    storage.close()


def test_snapshots_policies_and_buckets_are_decoded_by_hand_in_a_shard(tmp_path: Path) -> None:
    storage = open_acid(tmp_path)
    write_snapshots(storage)
    storage.close()
    storage = open_acid(tmp_path)
    storage.discard(1)
    storage.close()
    found = shard(tmp_path, 0)
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
    storage = open_acid(tmp_path)
    write_snapshots(storage)
    storage.close()
    folder = tmp_path / "blobs" / f"{1 * 0x9E3779B97F4A7C15 % 2**64 >> 56:02x}"
    assert (folder / f"{1:016x}-{0x2A:016x}.blob").read_bytes() == b"sum"


def test_the_files_of_a_stream_are_decoded_by_hand(tmp_path: Path) -> None:
    stream = Draft(b"a/text", 3)
    storage = open_files(tmp_path, segment_bytes=100)
    commit(storage, (stream.write(b"1" * 400, producer=(b"p", Producer(1, 2, 3))),))
    commit(storage, (stream.write(b"two", closed=True),))
    storage.close()
    bucket = f"{3 * 0x9E3779B97F4A7C15 % 2**64 >> 56:02x}"
    files = [tmp_path / "streams" / bucket / f"0000000000000003-{number:08d}.log" for number in (0, 1)]
    [(number, _, body)] = log(files[0].read_bytes())
    [created] = edits(body)
    assert (number, created["kind"], created["messages"]) == ((1 << 40) + 1, "create", [b"1" * 400])
    (state_number, _, state), (last_number, _, written) = log(files[1].read_bytes())
    assert (state_number, last_number) == (number, number + 1)
    assert (state.take("<B"), identity(state)["name"], head(state)["tail"], state.take("<I")) == (
        0x20,
        b"a/text",
        400,
        1,
    )
    assert (state.text(), state.take("<QQq"), state.left) == (b"p", (1, 2, 3), False)
    [write] = edits(written)
    assert (write["kind"], write["flags"], write["messages"]) == ("write", 1, [b"two"])


def test_a_catalogue_is_decoded_by_hand(tmp_path: Path) -> None:
    source, gone = Draft(b"s", 1), Draft(b"gone", 3)
    storage = open_files(tmp_path)
    commit(storage, (source.write(b"one"),), (Draft(b"fork", 2, source=source, offset=3).write(b"x"),), (gone.write(),))
    commit(storage, (gone.drop(),), (source.write(b"y"), Draft(b"new", 4).write(b"z")))
    [path] = tmp_path.glob("catalogue-00000001-*.log")
    bodies = [body for _, _, body in log(path.read_bytes())]
    assert [body.take("<B") for body in bodies] == [0x10, 0x11, 0x11, 0x11, 0x11, 0x12]
    made = [[(each["kind"], each["incarnation"], each.get("messages")) for each in edits(body)] for body in bodies[1:]]
    first, *_, dropped, joint = made
    assert (first, dropped) == ([("create", 1, [])], [("drop", 3, None)])
    assert joint == [("write", 1, [b"y"]), ("create", 4, [b"z"])]
    storage.close()
    open_files(tmp_path).close()
    [path] = tmp_path.glob("catalogue-00000002-*.log")
    (_, _, snapshot), (_, _, closed) = log(path.read_bytes())
    assert (snapshot.take("<B"), closed.take("<B"), closed.left) == (0x10, 0x13, False)
    snapshot.take("<QQ")
    streams, forks, mortal = snapshot.take("<QQQ")
    incarnations, lengths = snapshot.take(f"<{streams}Q"), snapshot.take(f"<{streams}H")
    names = [snapshot.bytes(length) for length in lengths]
    assert dict(zip(names, incarnations, strict=True)) == {b"s": 1, b"fork": 2, b"new": 4}
    assert (forks, snapshot.take("<QQ"), mortal, snapshot.left) == (1, (2, 1), 0, False)


@pytest.mark.parametrize(
    "stated",
    [
        "`<4sIQI`, 20 bytes",
        "`EBL1`",
        "`<4sIIQQ`",
        "`EBR1`",
        "`<QqBqq`",
        "`<QqB`",
        "`crc32(value, crc32(key))`",
        "`(i * 0x9E3779B97F4A7C15 % 2**64) >> (64 - b)`",
        "`crc32(name) % count`",
        "`>QQ` incarnation, offset of its first byte",
        "`i * 0x9E3779B97F4A7C15 % 2**64 >> 56`",
        "`owner * 0x9E3779B97F4A7C15 % 2**64 >> 56`",
        "### Kept: `<QB`",
        "| *with flag 32:* policy | `<QQQ` |",
        "| digest | 32 bytes |",
    ],
)
def test_the_page_states_what_this_test_uses(stated: str) -> None:
    assert stated in FORMAT
