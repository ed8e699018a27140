"""Catch-up reads that are too long to be held as a whole: sent part by part, or broken off."""

import gzip
import json
import sys
from pathlib import Path
from random import Random

import pytest

from everbrook.engine import EngineTuning, FeedTuning
from everbrook.server.assembly import open_storage
from everbrook.server.tuning import ServerTuning
from everbrook.settings import StorageMode
from everbrook.storage import Damaged, MemoryStorage
from tests.kit.server_thread import configured, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MB = 1_000_000
MIB = 1024 * 1024
TINY_BUFFER = 4096
SMALL_PARTS = ServerTuning(engine=EngineTuning(feed=FeedTuning(batch_bytes=100, part_bytes=7)))
ROOM = {"limits__max_stream_bytes": 50 * MB, "limits__max_memory_bytes": 500 * MB}


def fill(wire: Wire, path: str, megabytes: int) -> bytes:
    """Write a text of which no two parts are alike."""
    wire.create(path)
    body = b"".join(b"%09d\n" % number for number in range(megabytes * MB // 10))
    for start in range(0, len(body), MB):
        assert wire.append(path, body[start : start + MB]).status == 204
    return body


def data_of_frames(body: bytes) -> bytes:
    """Give the bytes of the messages in a page of frames, which stand behind its header and its two columns."""
    return body[24 + 16 * int.from_bytes(body[8:12], "little") :]


def decompressed(body: bytes, coding: str) -> bytes:
    return gzip.decompress(body) if coding == "gzip" else zstd.decompress(body)


@pytest.mark.parametrize("content_type", ["text/plain", "application/json"])
def test_a_page_in_parts_is_the_page(start_either: StartEither, connect: Connect, path: str, content_type: str) -> None:
    """Wherever the parts end, before and behind a separator too."""
    wire = connect(start_either(tuning=SMALL_PARTS))
    wire.create(path, content_type)
    for count in range(1, 60):
        wire.append(path, json.dumps(list(range(count))).encode(), content_type)
    answer = wire.get(path)
    numbers = [number for count in range(1, 60) for number in range(count)]
    if content_type == "application/json":
        assert json.loads(answer.body) == numbers
    else:
        assert answer.body == "".join(json.dumps(list(range(count))) for count in range(1, 60)).encode()
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.headers["stream-up-to-date"] == "true"
    assert wire.get(path, if_none_match=answer.headers["etag"]).status == 304


@pytest.mark.parametrize("length", range(96, 125))
def test_pages_of_every_length_are_whole(start: Start, connect: Connect, path: str, length: int) -> None:
    wire = connect(start(tuning=SMALL_PARTS))
    message = b'"%b"' % (b"x" * length)
    wire.create(path, "application/json", message)
    assert wire.get(path).body == b"[%b]" % message


def test_reads_come_in_one_piece_up_to_the_setting(start_either: StartEither, connect: Connect, path: str) -> None:
    wire = connect(start_either(**ROOM))
    body = fill(wire, path, 17)
    answer = wire.get(path)
    assert answer.body == body[: len(answer.body)]
    assert 15 * MIB < len(answer.body) <= 16 * MIB
    assert "stream-up-to-date" not in answer.headers
    rest = wire.get(f"{path}?offset={answer.next_offset}")
    assert answer.body + rest.body == body
    assert rest.headers["stream-up-to-date"] == "true"


@pytest.mark.parametrize("query", ["until={end}&offset=-1", "skip=0&offset=-1", "last=5"])
def test_reads_that_look_for_their_beginning_or_end_come_in_parts_too(
    start: Start, connect: Connect, path: str, query: str
) -> None:
    wire = connect(start(tuning=SMALL_PARTS))
    wire.create(path)
    for number in range(5):
        wire.append(path, b"%d" % number * 100)
    asked = query.format(end=f"{500:016d}")
    assert wire.get(f"{path}?{asked}").body == b"".join(b"%d" % number * 100 for number in range(5))


@pytest.mark.parametrize(
    "query, size", [("", 100), ("&until=0000000000000060", 60), ("&last=3", 60), ("&format=frames", 100)]
)
def test_a_reader_may_ask_for_less_at_a_time(wire: Wire, path: str, query: str, size: int) -> None:
    wire.create(path)
    for _ in range(20):
        wire.append(path, b"a" * 20)
    answer = wire.get(f"{path}?max_bytes=119{query}")
    assert len(data_of_frames(answer.body) if "frames" in query else answer.body) == size
    assert len(wire.get(f"{path}?max_bytes=1").body) == 20


def test_nobody_gets_more_than_the_setting_says(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_page_bytes=50))
    wire.create(path)
    for _ in range(20):
        wire.append(path, b"a" * 20)
    assert len(wire.get(f"{path}?max_bytes=1000").body) == 40


def test_frames_and_long_polls_are_held_as_a_whole_and_so_are_shorter(
    start: Start, connect: Connect, path: str
) -> None:
    wire = connect(start(tuning=SMALL_PARTS))
    wire.create(path)
    for _ in range(20):
        wire.append(path, b"a" * 20)
    assert len(wire.get(path).body) == 400
    assert len(data_of_frames(wire.get(f"{path}?format=frames").body)) == 100
    assert len(wire.get(f"{path}?offset=-1&live=long-poll").body) == 100


def test_a_request_behind_a_long_page_is_answered_after_it(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    wire = connect(start_either(**ROOM))
    body = fill(wire, path, 3)
    wire.ask("GET", path).ask("GET", "/healthz")
    assert (wire.read().body == body, wire.read().body) == (True, b"ok")


def test_readers_that_stop_reading_hold_little_of_a_long_page(start: Start, connect: Connect, path: str) -> None:
    server = start(**ROOM)
    fill(connect(server), path, 16)
    for _ in range(10):
        connect(server, TINY_BUFFER).ask("GET", path)
    assert eventually(
        lambda: server.call(lambda: sum(each.responder.congested for each in server.listener.connections)) == 10
    )
    assert server.unsent_bytes() <= 10 * 512 * 1024


def test_a_slow_reader_gets_the_whole_page(start_either: StartEither, connect: Connect, path: str) -> None:
    server = start_either(**ROOM)
    body = fill(connect(server), path, 6)
    assert connect(server, TINY_BUFFER).get(path).body == body


def publish(wire: Wire, path: str, offset: int) -> None:
    """Publish a snapshot, which cuts what lies before it."""
    assert wire.request("PUT", f"{path}/__ds/snapshot/{offset:016d}", b"state", content_type="text/plain").status == 204


def assert_broken_off(wire: Wire, body: bytes) -> None:
    """Whatever comes of an answer must end before its end, and be what the stream held."""
    received = wire.remains()
    assert len(received) < len(body)
    assert body.startswith(received)


def test_an_answer_breaks_off_when_its_stream_is_deleted(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    server = start_either(**ROOM)
    other, slow = connect(server), connect(server, TINY_BUFFER)
    body = fill(other, path, 16)
    assert int(slow.ask("GET", path).read_head().headers["content-length"]) == len(body)
    assert other.request("DELETE", path).status == 204
    assert_broken_off(slow, body)


def test_an_answer_breaks_off_when_its_stream_is_created_again(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    server = start_either(**ROOM)
    other, slow = connect(server), connect(server, TINY_BUFFER)
    body = fill(other, path, 16)
    slow.ask("GET", path).read_head()
    other.request("DELETE", path)
    other.create(path, body=b"x" * 20 * MB)
    assert_broken_off(slow, body)


def test_an_answer_breaks_off_when_its_stream_is_cut(start_either: StartEither, connect: Connect, path: str) -> None:
    """A slow reader does not hold up what retention gives back."""
    server = start_either(**ROOM)
    other, slow = connect(server), connect(server, TINY_BUFFER)
    body = fill(other, path, 16)
    slow.ask("GET", path).read_head()
    publish(other, path, 15 * MB)
    assert_broken_off(slow, body)


def test_a_page_goes_on_where_only_what_was_sent_is_cut(start: Start, connect: Connect, path: str) -> None:
    server = start(**ROOM)
    other, slow = connect(server), connect(server, TINY_BUFFER)
    other.create(path, body=b"0123456789")
    body = b"x" * 6 * MB
    other.append(path, body)
    slow.ask("GET", path)
    assert eventually(server.unsent_bytes)
    publish(other, path, 10)
    assert slow.read().body == b"0123456789" + body


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_long_page_is_compressed_part_by_part(
    start_either: StartEither, connect: Connect, path: str, coding: str
) -> None:
    wire = connect(start_either(**ROOM))
    body = fill(wire, path, 3)
    plain, packed = wire.get(path), wire.get(path, accept_encoding=coding)
    assert (packed.headers["content-encoding"], packed.headers["etag"]) == (coding, f"W/{plain.headers['etag']}")
    assert decompressed(packed.body, coding) == plain.body == body
    assert len(packed.body) < len(body) / 3


def test_a_long_page_that_does_not_shrink_is_sent_as_it_is(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    wire = connect(start_either(**ROOM))
    noise = Random(0).randbytes(2 * MIB)
    wire.create(path, "application/octet-stream", noise)
    answer = wire.get(path, accept_encoding="gzip")
    assert answer.body == noise
    assert int(answer.headers["content-length"]) == len(noise)
    assert not answer.headers["etag"].startswith("W/")


def test_a_compressed_answer_breaks_off_so_that_its_reader_sees_it(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    server = start_either(**ROOM)
    other, slow = connect(server), connect(server, TINY_BUFFER)
    noise = Random(0).randbytes(15 * MB).hex().encode()[: 16 * MB]
    other.create(path, body=noise)
    assert slow.ask("GET", path, accept_encoding="gzip").read_head().headers["transfer-encoding"] == "chunked"
    other.request("DELETE", path)
    assert not slow.remains().endswith(b"0\r\n\r\n")


class RottenStorage(MemoryStorage):
    """A storage in which one byte of each stream can't be read."""

    broken = 0

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        if start <= self.broken < end:
            raise Damaged(incarnation, self.broken, "base/data.mdb", "a block is damaged")
        return super().read(incarnation, start, end)


def test_an_answer_breaks_off_at_damage_and_the_next_ends_before_it(start: Start, connect: Connect, path: str) -> None:
    storage = RottenStorage()
    server = start(storage=storage, **ROOM)
    body = fill(connect(server), path, 4)
    storage.broken = 3_500_000
    with connect(server) as wire:
        received = wire.ask("GET", path).remains().partition(b"\r\n\r\n")[2]
    assert 0 < len(received) < storage.broken
    assert body.startswith(received)
    assert connect(server).get(path).body == body[: 3 * MB]


@pytest.mark.parametrize("mode", [mode for mode in StorageMode if mode.durable])
def test_pages_are_read_from_a_disk_part_by_part(
    start: Start, connect: Connect, path: str, tmp_path: Path, mode: StorageMode
) -> None:
    """From the journal, from the base when a checkpoint has taken them in, and not at all when they are deleted."""
    settings = configured(storage__mode=mode, storage__data_dir=str(tmp_path))
    server = start(storage=open_storage(settings), limits__max_page_bytes=30 * MB, **ROOM)
    other, slow = connect(server), connect(server, TINY_BUFFER)
    body = fill(other, path, 24)
    assert other.get(path).body == body
    slow.ask("GET", path).read_head()
    assert other.request("DELETE", path).status == 204
    assert_broken_off(slow, body)
