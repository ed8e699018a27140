"""What one client writes the other reads: every kind of content, in every mode, both ways, on one server."""

import base64

import pytest

from everbrook import Client
from everbrook.client import Mode
from everbrook.protocol.errors import StaleEpoch, StreamClosed
from tests.conformance.interop.typescript import Refused, TypeScript, binary, messages, text

BYTES = bytes(range(256)) * 20
TEXTS = ["Grüße,\n", "世界 🌍", "\u2028 and \u0085 and\ttab\n", " leading", "trailing "]
VALUES: list[object] = [{"n": 1, "text": "ü"}, [1, [2]], "plain", 3.5, None, True, {"": {}}, []]
MODES: list[Mode] = ["long-poll", "sse"]


@pytest.mark.parametrize("live", [False, *MODES])
def test_typescript_reads_json_of_python(python: Client, typescript: TypeScript, url: str, live: bool | str) -> None:  # noqa: FBT001
    stream = python.stream(url)
    stream.create(content_type="application/json")
    stream.extend(VALUES)
    stream.close()
    assert typescript.call("read", url=url, live=live, **{"as": "json"})["items"] == VALUES


@pytest.mark.parametrize("live", [False, *MODES])
def test_typescript_reads_text_of_python(python: Client, typescript: TypeScript, url: str, live: bool | str) -> None:  # noqa: FBT001
    stream = python.stream(url)
    stream.create(content_type="text/plain")
    for piece in TEXTS:
        stream.append(piece)
    stream.close()
    assert typescript.call("read", url=url, live=live, **{"as": "text"})["text"] == "".join(TEXTS)


@pytest.mark.parametrize("live", [False, *MODES])
def test_typescript_reads_bytes_of_python(python: Client, typescript: TypeScript, url: str, live: bool | str) -> None:  # noqa: FBT001
    stream = python.stream(url)
    stream.create(content_type="application/octet-stream")
    stream.append(BYTES)
    stream.close(BYTES[::-1])
    seen = typescript.call("read", url=url, live=live, **{"as": "bytes"})
    assert base64.b64decode(seen["base64"]) == BYTES + BYTES[::-1]


@pytest.mark.parametrize("mode", MODES)
def test_python_follows_json_of_typescript(python: Client, typescript: TypeScript, url: str, mode: Mode) -> None:
    typescript.call("create", url=url, contentType="application/json")
    writing = typescript.start("produce", url=url, producerId="ts", items=messages(VALUES), close=True)
    assert python.stream(url).follow(mode=mode).all() == [*VALUES]
    writing.result(30)


@pytest.mark.parametrize("mode", MODES)
def test_python_follows_text_of_typescript(python: Client, typescript: TypeScript, url: str, mode: Mode) -> None:
    where = {"url": url, "contentType": "text/plain"}
    typescript.call("create", **where)
    for piece in TEXTS:
        typescript.call("append", **where, items=[text(piece)])
    typescript.call("close", **where)
    assert python.stream(url).follow(mode=mode).text() == "".join(TEXTS)


@pytest.mark.parametrize("mode", MODES)
def test_python_follows_bytes_of_typescript(python: Client, typescript: TypeScript, url: str, mode: Mode) -> None:
    where = {"url": url, "contentType": "image/png"}
    typescript.call("create", **where)
    typescript.call("append", **where, items=[binary(BYTES)])
    typescript.call("close", **where)
    assert python.stream(url).follow(mode=mode).bytes() == BYTES


def test_a_producer_goes_on_where_the_other_was_fenced(python: Client, typescript: TypeScript, url: str) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    with stream.producer("shared", epoch=3) as producer:
        producer.append(1)
    typescript.call("produce", url=url, producerId="shared", epoch=4, items=messages([2]))
    with pytest.raises(StaleEpoch), stream.producer("shared", epoch=3) as stale:
        stale.append("never")
    assert stream.read().all() == [1, 2]


def test_python_claims_what_typescript_held(python: Client, typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="application/json")
    typescript.call("produce", url=url, producerId="shared", epoch=5, items=messages([1]))
    with python.stream(url).producer("shared", auto_claim=True) as producer:
        producer.append(2)
    assert typescript.call("read", url=url, **{"as": "json"})["items"] == [1, 2]


def test_an_offset_of_one_is_an_offset_of_the_other(python: Client, typescript: TypeScript, url: str) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    offset = stream.append("before")
    stream.append("after")
    seen = typescript.call("read", url=url, offset=offset, **{"as": "json"})
    assert seen["items"] == ["after"]
    assert stream.read(seen["offset"]).all() == []


def test_both_see_the_end(python: Client, typescript: TypeScript, url: str) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    final = typescript.call("close", url=url, body=text('"last"'))["finalOffset"]
    head = stream.head()
    assert (head.closed, head.offset) == (True, final)
    with pytest.raises(StreamClosed):
        stream.append("more")
    with pytest.raises(Refused):
        typescript.call("append", url=url, items=messages(["more"]))
