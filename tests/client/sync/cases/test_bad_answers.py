# Written by tools/mirror.py from tests/client/async_/cases/test_bad_answers.py: change that file, not this one.
"""Answers that make no sense are said to make none, and the next request goes on as if nothing had been."""

import base64

import pytest

from everbrook.client import Mode
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import InvalidAnswer
from everbrook.protocol.errors import ProtocolError
from tests.kit.faults.kinds import Edited, Fault, Preceded, Reply
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer


@pytest.mark.parametrize(
    "fault",
    [
        Edited(lambda body: body[:10]),
        Edited(lambda body: body[:-1]),
        Edited(lambda body: body.replace(b":", b"\x00")),
        Edited(lambda _body: b"<html>"),
        Edited(lambda _body: b'{"not": "an array"}'),
        Edited(lambda body: body.replace(b"value", b"v\xff\xfe")),
        Edited(lambda _body: b"[" * 100_000),
    ],
    ids=["truncated", "without its end", "corrupt", "html", "no array", "not utf-8", "too deep"],
)
def test_json_that_is_none_is_an_invalid_answer(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    writer.create("application/json", b'{"key": "some long value that will be cut"}')
    proxy.arm(fault)
    with pytest.raises(InvalidAnswer, match=r"page of the stream|not of the type"):
        shaky.read().all()
    assert shaky.read().all() == [{"key": "some long value that will be cut"}]


@pytest.mark.parametrize(
    "fault",
    [
        Edited(headers={"Stream-Next-Offset": None}),
        Reply(200, {"Content-Type": "text/html"}, b"<html>Welcome to the Wi-Fi</html>"),
        Reply(200, {}, b""),
        Reply(204),
    ],
    ids=["no offset", "another page", "nothing", "no content"],
)
def test_an_answer_of_something_else_is_not_taken_for_a_stream(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    writer.create("text/plain", b"data")
    for method in ("GET", "HEAD", "POST"):
        proxy.arm(fault, method=method)
    with pytest.raises(InvalidAnswer, match=r"Stream-Next-Offset|web page"):
        shaky.head()
    with pytest.raises(InvalidAnswer, match="Stream-Next-Offset"):
        shaky.read().all()


@pytest.mark.parametrize(
    "fault",
    [
        Reply(200, {"Content-Type": "text/html"}, b"<html>Welcome to the Wi-Fi</html>"),
        Reply(302, {"Location": "http://example.invalid/login"}),
        Reply(204),
    ],
    ids=["another page", "redirect", "no content"],
)
def test_what_something_else_answers_to_a_producer_is_no_success(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    writer.create("application/json")
    shaky.head()
    proxy.arm(fault, method="POST")
    with pytest.raises(InvalidAnswer), shaky.producer() as producer:
        producer.append(1)
    assert writer.messages() == []


@pytest.mark.parametrize("status, content_type", [(302, "text/plain"), (200, "text/html")])
def test_nothing_is_deleted_or_published_by_something_else(
    writer: Writer, proxy: Proxy, shaky: Stream[object], status: int, content_type: str
) -> None:
    writer.create("application/json")
    proxy.arm(Reply(status, {"Location": "/login", "Content-Type": content_type}, b"Welcome"), times=2)
    with pytest.raises(InvalidAnswer):
        shaky.delete()
    with pytest.raises(InvalidAnswer):
        shaky.publish(b"{}", offset="0000000000000000")


def test_a_redirect_is_not_followed_in_silence(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("text/plain", b"data")
    proxy.arm(Reply(302, {"Location": "http://example.invalid/login"}), times=10)
    with pytest.raises((InvalidAnswer, ProtocolError)):
        shaky.read().all()


def test_a_content_type_that_changes_does_not_change_the_bytes(
    writer: Writer, proxy: Proxy, shaky: Stream[object]
) -> None:
    writer.create("application/octet-stream", b"\x00\xff")
    proxy.arm(Edited(headers={"Content-Type": "application/json"}))
    assert shaky.read().bytes() == b"\x00\xff"


UNKNOWN = b'event: unknown-future-type\ndata: {"some":"future-data"}\n\n'


@pytest.mark.parametrize(
    "prefix",
    [UNKNOWN, UNKNOWN * 3, b": a comment\n\n", b"retry: 10\n\n", b"event: data\n\n", b"\xef\xbb\xbf", b"data:\n\n"],
    ids=repr,
)
@pytest.mark.parametrize("mode", ["sse", "auto"])
def test_events_that_nobody_knows_are_skipped(
    writer: Writer, proxy: Proxy, shaky: Stream[object], prefix: bytes, mode: Mode
) -> None:
    writer.create("application/json", b'"first"').later(b'"second"', close=True)
    proxy.arm(Preceded(prefix), query="live=sse")
    assert shaky.follow(mode=mode).all() == ["first", "second"]


@pytest.mark.parametrize(
    "control",
    [b"{invalid json here", b"", b"{}", b"[]", b'{"streamNextOffset": 5}', b'{"streamNextOffset": "\xff"}'],
    ids=repr,
)
def test_a_control_event_that_is_none_is_an_invalid_answer(
    writer: Writer, proxy: Proxy, shaky: Stream[object], control: bytes
) -> None:
    writer.create("text/plain", b"before")
    proxy.arm(Preceded(b"event: control\ndata: " + control + b"\n\n"), query="live=sse")
    with pytest.raises(InvalidAnswer, match="control event"):
        shaky.follow(writer.tail, mode="sse").all()
    assert shaky.read().text() == "before"


def test_bytes_that_are_not_base64_are_an_invalid_answer(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/octet-stream", b"before")
    proxy.arm(Preceded(b"event: data\ndata: A*B=\n\n"), query="live=sse")
    with pytest.raises(InvalidAnswer, match="base64"):
        shaky.follow(writer.tail, mode="sse").all()


def test_an_event_in_many_lines_is_one(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    """base64 may be broken into lines, which are put together before it is decoded."""
    payload = bytes(range(256)) * 16
    lines = base64.encodebytes(payload).splitlines()
    event = b"event: data\n" + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    writer.create("application/octet-stream", payload)
    end = b'event: control\ndata: {"streamNextOffset": "%b", "streamClosed": true}\n\n' % writer.tail.encode()
    headers = {"Content-Type": "text/event-stream", "Stream-SSE-Data-Encoding": "base64"}
    proxy.arm(Reply(200, headers, event + end), query="live=sse")
    assert shaky.follow(writer.tail, mode="sse").bytes() == payload


@pytest.mark.parametrize("mode", ["long-poll", "auto"])
def test_a_character_in_two_pages_is_one(writer: Writer, shaky: Stream[object], mode: Mode) -> None:
    euro = "€".encode()
    writer.create("text/plain", b"a" + euro[:1])
    if mode == "long-poll":
        writer.later(euro[1:2], euro[2:] + b"z", close=True)
    else:
        writer.append(euro[1:], b"z").close()
    assert "".join([str(piece) for piece in shaky.follow(mode=mode)]) == "a€z"


def test_a_character_that_never_ends_is_shown_as_such(writer: Writer, shaky: Stream[object]) -> None:
    writer.create("text/plain", b"a" + "€".encode()[:2]).close()
    assert "".join([str(piece) for piece in shaky.read()]) == "a\ufffd"
    assert shaky.read().text() == "a\ufffd"
    assert shaky.read().bytes() == b"a\xe2\x82"
