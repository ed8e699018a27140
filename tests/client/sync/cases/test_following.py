# Written by tools/mirror.py from tests/client/async_/cases/test_following.py: change that file, not this one.
"""Follows (§5.7, §5.8): what is there, then what comes, the same in every mode and for every kind of content."""

import time
from pathlib import Path

import pytest

from everbrook.client import Mode
from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import StreamRewound
from everbrook.client.offsets import FileOffsets
from everbrook.protocol.errors import StreamNotFound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer
from tests.kit.server_process import serving

MODES: list[Mode] = ["auto", "sse", "long-poll"]
every_mode = pytest.mark.parametrize("mode", MODES)


@every_mode
def test_what_is_there_comes_first_and_then_what_comes(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json", b"[1,2]").later(b"3", b"[4,5]", b"6", close=True)
    assert stream.follow(mode=mode).all() == [1, 2, 3, 4, 5, 6]


@pytest.mark.timing
@every_mode
def test_what_is_there_is_not_waited_for(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json", b"[1,2]")
    begin = time.monotonic()
    values = iter(stream.follow(mode=mode))
    assert [next(values), next(values)] == [1, 2]
    assert time.monotonic() - begin < 1.9


@every_mode
def test_an_empty_stream_is_waited_at(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json").later(b"[1]", close=True)
    assert stream.follow(mode=mode).all() == [1]


@every_mode
def test_the_first_page_says_that_it_is_up_to_date(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("text/plain", b"here")
    pages = iter(stream.follow(mode=mode).pages())
    page = next(pages)
    assert (page.up_to_date, page.closed, page.next_offset) == (True, False, writer.tail)


@every_mode
def test_a_follower_begins_at_an_offset(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json", b"[1]")
    offset = writer.tail
    writer.append(b"[2]").later(b"[3]", close=True)
    assert stream.follow(offset, mode=mode).all() == [2, 3]


@every_mode
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
def test_whoever_begins_now_gets_only_what_comes(
    writer: Writer, proxy: Proxy, shaky: Stream[object], mode: Mode, content_type: str
) -> None:
    writer.create(content_type, b'"old"').later(b'"new"', close=True, once=lambda: proxy.asked("GET", "live="))
    got = shaky.follow("now", mode=mode).all()
    assert got == {"application/json": ["new"], "text/plain": ['"new"']}.get(content_type, [b'"new"'])


@every_mode
def test_a_stream_without_news_is_waited_at_for_longer_than_one_answer_takes(
    mode: Mode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The server ends each long-poll and each event stream after a while; the follower asks again."""
    folder = tmp_path_factory.mktemp("short")
    settings = {"DS_SERVER__LONG_POLL_TIMEOUT_SECS": "0.1", "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "1"}
    with serving(folder, **settings) as started:
        other = Writer("http://{}:{}".format(*started.address), "patience").create("application/json")
        other.later(b"[1]", b"[2]", close=True, pause_secs=0.6)
        with Client("http://{}:{}".format(*started.address)) as client:
            assert client.stream("patience").follow(mode=mode).all() == [1, 2]
        other.leave()


@every_mode
def test_order_is_kept(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json").later(*(b"%d" % n for n in range(100)), close=True, pause_secs=0.001)
    assert stream.follow(mode=mode).all() == list(range(100))


@every_mode
def test_offsets_grow_and_can_be_gone_on_from(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json").later(*(b"%d" % n for n in range(8)), close=True, pause_secs=0.01)
    pages = list(stream.follow(mode=mode).pages())
    offsets = [page.next_offset for page in pages]
    assert offsets == sorted(offsets)
    for number, page in enumerate(pages):
        rest = [value for later in pages[number + 1 :] for value in later.values]
        assert stream.read(page.next_offset).all() == rest


@every_mode
@pytest.mark.parametrize("offset", ["-1", "now"])
def test_a_stream_that_is_not_there_is_named(writer: Writer, stream: Stream[object], mode: Mode, offset: str) -> None:
    with pytest.raises(StreamNotFound, match=writer.name):
        stream.follow(offset, mode=mode).all()


@every_mode
def test_a_stream_that_is_deleted_meanwhile_ends_the_loop_with_a_word(
    writer: Writer, stream: Stream[object], mode: Mode
) -> None:
    writer.create("application/json", b"[1]")
    values = iter(stream.follow(mode=mode))
    assert next(values) == 1
    writer.send("DELETE")
    with pytest.raises(StreamNotFound, match=writer.name):
        next(values)


TEXTS = ["\u0085", "\u2028", "\u2029", "a\u0085b\u2028c\u2029d", "one\ntwo\n\nthree", "  two spaces", " ", "end ", ":x"]


@every_mode
def test_text_comes_as_it_was(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    """It is written while the follower waits, so that it comes as an event where there are events."""
    writer.create("text/plain", b"^").later(*(text.encode() for text in TEXTS), close=True, pause_secs=0.03)
    assert stream.follow(mode=mode).text() == "^" + "".join(TEXTS)


def test_carriage_returns_come_as_they_were(writer: Writer, stream: Stream[object]) -> None:
    """Events can't carry them, so such a page is read again, and the rest is waited for by long-polls."""
    pieces = (b"10%\r", b"20%\r30%\n", b"a\r\nb", b"x\ry")
    writer.create("text/plain", b"^").later(*pieces, close=True, pause_secs=0.05)
    assert stream.follow().bytes() == b"^" + b"".join(pieces)


BYTES = [
    b"hello",
    *(b"foobar"[:size] for size in (1, 2, 3, 6)),
    b"\x00",
    bytes(range(256)),
    b"\r\n\n\r\x00\r",
    b'{"looks": "like json"}',
    bytes(range(256)) * 400,
]


@every_mode
def test_bytes_come_as_they_were(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/octet-stream", *BYTES).later(*BYTES, close=True, pause_secs=0.03)
    assert stream.follow(mode=mode).bytes() == b"".join(BYTES) * 2


@pytest.mark.parametrize("content_type", ["application/x-protobuf", "image/png", "application/octet-stream"])
def test_every_binary_type_comes_as_base64(
    writer: Writer, proxy: Proxy, shaky: Stream[object], content_type: str
) -> None:
    writer.create(content_type, b"\x00")
    writer.later(*([b"\xff"] * 30), close=True, pause_secs=0.002, once=lambda: proxy.asked("GET", "live=sse"))
    pieces = shaky.follow(mode="sse").all()
    assert b"".join(pieces) == b"\x00" + b"\xff" * 30  # type: ignore[arg-type]
    assert proxy.asked("GET", "live=sse")


def test_all_modes_agree(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json", b"[1,2]", b'{"a": [3]}', b'"x"').close()
    read = stream.read().all()
    followed = [stream.follow(mode=mode).all() for mode in MODES]
    assert followed == [read] * 3
    readers = [stream.follow(mode=mode) for mode in MODES]
    for reader in readers:
        reader.all()
    assert {reader.offset for reader in readers} == {writer.tail}


def test_an_offset_that_was_kept_is_not_used_in_another_stream(
    writer: Writer, stream: Stream[object], tmp_path: Path
) -> None:
    """The stream was deleted and made again, and has the same offsets."""
    kept = FileOffsets(tmp_path / "kept")
    for value in (b"1", b"2"):
        writer.create("application/json", value).close()
        if value == b"1":
            assert stream.follow(offsets=kept).all() == [1]
            stream.delete()
    with pytest.raises(StreamRewound, match="created again"):
        stream.follow(offsets=kept).all()


def test_an_offset_that_was_kept_without_an_incarnation_is_used(
    writer: Writer, stream: Stream[object], tmp_path: Path
) -> None:
    writer.create("application/json", b"1", b"2").close()
    (tmp_path / "kept").write_text("0000000000000002\n")
    assert stream.follow(offsets=FileOffsets(tmp_path / "kept")).all() == [2]
