"""The format: a log can be read with nothing but `struct` and a checksum."""

import struct
import zlib
from hashlib import sha256
from pathlib import Path

from everbrook.protocol import Producer
from tests.storage.drafts import NOW, Draft
from tests.storage.files.opening import commit, open_files, segments


def take_record(log: bytes, position: int, salt: int) -> tuple[bytes, int]:
    magic, checksum, length, _number, _synced = struct.unpack_from("<4sIIQQ", log, position)
    body = log[position + 28 : position + 28 + length]
    assert magic == b"EBR1"
    assert checksum == zlib.crc32(log[position + 8 : position + 28] + body, salt)
    return body, position + 28 + length


def test_a_log_can_be_decoded_by_hand(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"name", 5)
    commit(storage, (stream.write(b"one"),))
    commit(storage, (stream.write(b"more", producer=(b"p", Producer(3, 4, 99))),))
    storage.close()
    [path] = segments(tmp_path)
    assert path.name == "0000000000000005-00000000.log"
    log = path.read_bytes()

    magic, salt, _first, checksum = struct.unpack_from("<4sIQI", log)
    assert (magic, salt, checksum) == (b"EBL1", 7, zlib.crc32(log[:16]))

    body, position = take_record(log, 20, salt)
    kind, incarnation, created_at, flags, _ttl, _expires = struct.unpack_from("<BQqBqq", body)
    assert (kind, incarnation, created_at, flags) == (1, 5, NOW, 0)
    assert body[34:40] == b"\x04\x00name"
    assert body.endswith(struct.pack("<QqBII", 3, NOW + 1, 0, 3, 1) + b"one")

    body, position = take_record(log, position, salt)
    kind, incarnation, tail, written_at, flags = struct.unpack_from("<BQQqB", body)
    assert (kind, incarnation, tail, written_at, flags) == (2, 5, 7, NOW + 2, 16)
    assert body[26:] == struct.pack("<QQq", 3, 4, 99) + b"\x01\x00p" + struct.pack("<II", 4, 1) + b"more"
    assert position == len(log)


def test_a_later_segment_begins_with_the_state(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=1)
    stream = Draft(b"name", 5)
    commit(storage, (stream.write(b"x" * 500, producer=(b"p", Producer(3, 4, 99))),))
    commit(storage, (stream.write(b"two"),))
    storage.close()
    _, path = segments(tmp_path)
    log = path.read_bytes()
    body, position = take_record(log, 20, 7)
    assert struct.unpack_from("<BQq", body) == (0x20, 5, NOW)
    assert body.endswith(struct.pack("<QqBI", 500, NOW + 1, 0, 1) + b"\x01\x00p" + struct.pack("<QQq", 3, 4, 99))
    body, position = take_record(log, position, 7)
    assert body.endswith(b"two")
    assert position == len(log)


def test_the_catalogue_can_be_decoded_by_hand(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    source = Draft(b"s", 1)
    commit(storage, (source.write(b"one"),), (Draft(b"fork", 2, source=source, offset=3).write(),))
    storage.close()
    open_files(tmp_path, salt=8).close()
    [path] = tmp_path.glob("catalogue-*.log")
    assert path.name == "catalogue-00000002-00000002.log"
    log = path.read_bytes()
    body, position = take_record(log, 20, 8)
    kind, _ends, _logs, streams, forks, mortal = struct.unpack_from("<BQQQQQ", body)
    assert (kind, streams, forks, mortal) == (0x10, 2, 1, 0)
    assert body[41:] == struct.pack("<QQHH", 1, 2, 1, 4) + b"sfork" + struct.pack("<QQ", 2, 1)
    assert take_record(log, position, 8) == (b"\x13", len(log))


def test_a_cut_can_be_decoded_by_hand(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    stream = Draft(b"name", 5)
    commit(storage, (stream.write(b"one"),))
    [path] = segments(tmp_path)
    position = path.stat().st_size
    commit(storage, (stream.cut(3, blob=9, content=b"sum"),))
    storage.close()
    log = path.read_bytes()
    body, end = take_record(log, position, 7)
    assert struct.unpack_from("<BQQqB", body) == (2, 5, 3, NOW + 1, 64)
    earliest, has_snapshot, offset, published_at, size, owner, blob = struct.unpack_from("<QBQqQQQ", body, 26)
    assert (earliest, has_snapshot, offset, published_at, size, owner, blob) == (3, 1, 3, NOW, 3, 5, 9)
    assert body[75:107] == sha256(b"sum").digest()
    assert body[107:] == b"\x0a\x00text/x-sum" + struct.pack("<II", 0, 0)
    assert end == len(log)


def test_where_logs_begin_can_be_decoded_by_hand(tmp_path: Path) -> None:
    storage = open_files(tmp_path, segment_bytes=1)
    stream = Draft(b"name", 5)
    for _ in range(4):
        commit(storage, (stream.write(b"one"),))
    commit(storage, (stream.cut(9),))
    storage.discard(5)
    storage.close()
    assert [path.name[16:] for path in segments(tmp_path)] == ["-00000003.log", "-00000004.log"]
    [path] = tmp_path.glob("catalogue-*.log")
    moved = b"\x14" + struct.pack("<QQ", 5, 3)
    assert moved in path.read_bytes()
    open_files(tmp_path, salt=8).close()
    [path] = tmp_path.glob("catalogue-*.log")
    body, _ = take_record(path.read_bytes(), 20, 8)
    assert body[41:] == struct.pack("<QH", 5, 4) + b"name" + struct.pack("<QQ", 5, 3)
