# Written by tools/mirror.py from tests/client/async_/cases/test_creating.py: change that file, not this one.
"""From the creation of a stream to its deletion: what is asked for is what is there (§5.1, §5.4, §5.5)."""

from datetime import UTC, datetime, timedelta

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
from everbrook.protocol.errors import Conflict, StreamExists, StreamNotFound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer


def test_a_stream_is_of_json_unless_said_otherwise(stream: Stream[object]) -> None:
    head = stream.create()
    assert (head.created, head.content_type, head.closed) == (True, "application/json", False)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/octet-stream", "text/plain; charset=utf-8", "image/png"]
)
def test_a_content_type_is_kept(writer: Writer, stream: Stream[object], content_type: str) -> None:
    stream.create(content_type=content_type)
    assert writer.send("HEAD").headers["Content-Type"] == content_type
    assert stream.head().content_type == content_type


def test_creating_twice_is_creating_once(stream: Stream[object]) -> None:
    assert stream.create().created
    assert not stream.create().created


def test_creating_twice_is_refused_when_asked_for(stream: Stream[object]) -> None:
    stream.create()
    with pytest.raises(StreamExists, match=stream.name):
        stream.create(exist_ok=False)


def test_another_configuration_is_a_conflict(stream: Stream[object]) -> None:
    stream.create()
    with pytest.raises(Conflict):
        stream.create(content_type="text/plain")


def test_a_lifetime_is_kept(stream: Stream[object]) -> None:
    stream.create(ttl_secs=3600)
    assert stream.head().ttl_secs == 3600


def test_an_end_is_kept(stream: Stream[object]) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    stream.create(expires_at=tomorrow)
    assert stream.head().expires_at == tomorrow


def test_a_stream_may_begin_with_data(writer: Writer, stream: Stream[object]) -> None:
    head = stream.create(data=[1, 2])
    assert writer.messages() == [[1, 2]]
    assert head.offset == writer.tail


@pytest.mark.parametrize("ttl_secs", [None, 60])
def test_a_stream_may_be_closed_from_the_start(stream: Stream[object], ttl_secs: int | None) -> None:
    stream.create(closed=True, ttl_secs=ttl_secs)
    head = stream.head()
    assert (head.closed, head.ttl_secs) == (True, ttl_secs)


def test_a_closed_stream_may_have_content_from_the_start(stream: Stream[object]) -> None:
    stream.create(content_type="text/plain", closed=True, data="all of it")
    reader = stream.read()
    assert reader.text() == "all of it"
    assert reader.closed


def test_headers_go_with_every_request(writer: Writer, proxy: Proxy) -> None:
    with Client(proxy.origin, headers={"X-Trace": "7"}) as client:
        stream = client.stream(writer.name)
        stream.create()
        stream.append(1)
        stream.head()
        stream.read().all()
        stream.delete()
    assert {(request.method, request.headers.get("x-trace")) for request in proxy.requests} == {
        (method, "7") for method in ("PUT", "POST", "HEAD", "GET", "DELETE")
    }


def test_a_head_tells_the_tail_and_an_etag(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"seven b")
    head = stream.head()
    assert (head.offset, head.content_type, head.closed) == (writer.tail, "text/plain", False)
    assert head.etag == writer.send("HEAD").headers.get("ETag")


def test_the_head_of_an_empty_stream_is_its_beginning(writer: Writer, stream: Stream[object]) -> None:
    writer.create()
    assert stream.head().offset == writer.tail
    assert stream.read(stream.head().offset).all() == []


def test_a_stream_that_is_not_there_says_so(writer: Writer, stream: Stream[object]) -> None:
    assert not stream.exists()
    for asked in (stream.head, stream.delete):
        with pytest.raises(StreamNotFound, match=writer.name):
            asked()


def test_a_deleted_stream_is_gone(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"data")
    stream.delete()
    for asked in (stream.read().all, stream.delete, stream.head):
        with pytest.raises(StreamNotFound):
            asked()
    with pytest.raises(StreamNotFound, match=writer.name):
        stream.append("more")


def test_a_deletion_may_find_nothing(stream: Stream[object]) -> None:
    stream.delete(missing_ok=True)


def test_a_stream_made_again_has_nothing_of_the_old_one(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"old")
    stream.delete()
    stream.create(content_type="application/json")
    stream.append("new")
    assert stream.read().all() == ["new"]


def test_a_closed_stream_can_be_deleted(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"end").close()
    stream.delete()
    assert not stream.exists()


def test_streams_do_not_mix(client: Client, writer: Writer) -> None:
    names = [f"{writer.name}/{number}" for number in range(3)]
    for name in names:
        stream = client.stream(name)
        stream.create()
        stream.append(name)
    assert [client.stream(name).read().all() for name in names] == [[name] for name in names]


def test_a_whole_life(stream: Stream[object]) -> None:
    stream.create()
    stream.append({"event": "born"})
    stream.close({"event": "done"})
    assert stream.follow().all() == [{"event": "born"}, {"event": "done"}]
    stream.delete()
    assert not stream.exists()
