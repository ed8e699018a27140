"""The official TypeScript client, alone with our server: everything it can do works here."""

import base64

import pytest

from tests.conformance.interop.typescript import Refused, TypeScript, binary, messages, text
from tests.kit.server_thread import RunningServer, configured, eventually
from tests.kit.wire import render

BYTES = bytes(range(256))
NUMBERS = [{"number": number} for number in range(200)]


def test_a_stream_is_created_and_looked_at_and_deleted(typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="text/plain", body=text("hello"))
    head = typescript.call("head", url=url)
    assert (head["exists"], head["contentType"], head["streamClosed"]) == (True, "text/plain", False)
    typescript.call("delete", url=url)
    assert typescript.call("head", url=url) == {"exists": False}
    with pytest.raises(Refused) as refused:
        typescript.call("read", url=url, **{"as": "text"})
    assert refused.value.told["status"] == 404


def test_appends_at_once_are_batched_in_order(typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="application/json")
    typescript.call("append", url=url, items=messages(NUMBERS))
    assert typescript.call("read", url=url, **{"as": "json"})["items"] == NUMBERS


def test_a_producer_appends_exactly_once(typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="application/json")
    first = typescript.call("produce", url=url, producerId="ts", epoch=0, items=messages(NUMBERS))
    again = typescript.call("produce", url=url, producerId="ts", epoch=0, items=messages(NUMBERS[:1]))
    assert first["nextSeq"] >= 1
    assert again["epoch"] == 0
    assert typescript.call("read", url=url, **{"as": "json"})["items"] == NUMBERS


def test_a_newer_producer_claims_the_stream(typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="application/json")
    typescript.call("produce", url=url, producerId="ts", epoch=7, items=messages(["new"]))
    claimed = typescript.call("produce", url=url, producerId="ts", epoch=0, autoClaim=True, items=messages(["newer"]))
    assert claimed["epoch"] == 8
    assert typescript.call("read", url=url, **{"as": "json"})["items"] == ["new", "newer"]


@pytest.mark.parametrize("live", [True, "long-poll", "sse"])
def test_a_follower_gets_everything_until_the_end(typescript: TypeScript, url: str, live: bool | str) -> None:  # noqa: FBT001
    typescript.call("create", url=url, contentType="application/json", body=text("[0, 1]"))
    following = typescript.start("batches", url=url, live=live)
    for number in range(2, 10):
        typescript.call("append", url=url, items=messages([number]))
    typescript.call("close", url=url)
    seen = following.result(30)
    assert [item for batch in seen["batches"] for item in batch] == list(range(10))
    assert seen["closed"]


@pytest.mark.parametrize("live", [False, "long-poll", "sse"])
def test_bytes_arrive_as_they_were(typescript: TypeScript, url: str, live: bool | str) -> None:  # noqa: FBT001
    where = {"url": url, "contentType": "application/octet-stream"}
    typescript.call("create", **where)
    typescript.call("append", **where, items=[binary(BYTES)])
    typescript.call("close", **where, body=binary(BYTES))
    seen = typescript.call("read", url=url, live=live, **{"as": "bytes"})
    assert base64.b64decode(seen["base64"]) == BYTES * 2


@pytest.mark.parametrize("live", [False, "long-poll", "sse"])
def test_text_arrives_as_it_was(typescript: TypeScript, url: str, live: bool | str) -> None:  # noqa: FBT001
    where = {"url": url, "contentType": "text/plain; charset=utf-8"}
    typescript.call("create", **where)
    typescript.call("append", **where, items=[text("Grüße,\n"), text("世界 🌍\u2028\u0085")])
    typescript.call("close", **where)
    assert typescript.call("read", url=url, live=live, **{"as": "text"})["text"] == "Grüße,\n世界 🌍\u2028\u0085"


def test_a_reader_resumes_where_it_was(typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="application/json", body=text("[1, 2]"))
    first = typescript.call("read", url=url, **{"as": "json"})
    typescript.call("append", url=url, items=messages([3]))
    assert typescript.call("read", url=url, offset=first["offset"], **{"as": "json"})["items"] == [3]


def write_three_megabytes(typescript: TypeScript, url: str) -> None:
    batch = messages([["x" * 100_000] * 10])
    typescript.call("create", url=url, contentType="application/json")
    for _ in range(3):
        typescript.call("append", url=url, items=batch)


def test_a_long_stream_comes_in_one_piece(typescript: TypeScript, url: str) -> None:
    """`live: false` makes one request, and takes its answer for the whole stream."""
    write_three_megabytes(typescript, url)
    assert len(typescript.call("read", url=url, **{"as": "json"})["items"]) == 3


def test_a_stream_longer_than_a_page_is_read_page_by_page(typescript: TypeScript) -> None:
    """`live: false` ends with the first page; `live: true` reads on until it is up to date."""
    with RunningServer(configured(limits__max_page_bytes=1024 * 1024)) as server:
        url = f"{server.origin}/v1/stream/long"
        write_three_megabytes(typescript, url)
        assert len(typescript.call("read", url=url, live=True, **{"as": "json"})["items"]) == 3
        first = typescript.call("read", url=url, **{"as": "json"})
        rest = typescript.call("read", url=url, offset=first["offset"], live=True, **{"as": "json"})
    assert (len(first["items"]), len(rest["items"])) == (1, 2)


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream"])
def test_messages_of_one_moment_arrive_one_by_one_over_events(
    server: RunningServer, typescript: TypeScript, url: str, content_type: str
) -> None:
    typescript.call("create", url=url, contentType=content_type)
    path = url.removeprefix(server.origin)
    following = typescript.start("pieces", url=url, text=content_type == "text/plain")
    assert eventually(lambda: server.waiting(path) == 1)
    with server.connect() as wire:
        words = [render("POST", path, word, content_type=content_type, host="a") for word in (b"one", b"two", b"three")]
        wire.send(b"".join(words))
        assert [wire.read().status for _ in words] == [204] * 3
    typescript.call("close", url=url)
    seen = following.result(30)
    assert (seen["pieces"], seen["closed"]) == (["one", "two", "three"], True)


def test_a_closed_stream_takes_nothing_more(typescript: TypeScript, url: str) -> None:
    typescript.call("create", url=url, contentType="application/json", closed=True, body=text("[1]"))
    with pytest.raises(Refused) as refused:
        typescript.call("append", url=url, items=messages([2]))
    assert refused.value.told["status"] == 409
    seen = typescript.call("read", url=url, **{"as": "json"})
    assert (seen["items"], seen["closed"]) == ([1], True)
