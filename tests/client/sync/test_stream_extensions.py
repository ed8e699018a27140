# Written by tools/mirror.py from tests/client/async_/test_stream_extensions.py: change that file, not this one.
"""What our servers know beyond the base protocol, through the client: bounds, times, frames, forks, lifetimes."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import sleep
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import InvalidAnswer, StreamRewound
from everbrook.protocol.errors import BadRequest, StreamExists, TailMoved

_numbers = count()


class Order(msgspec.Struct):
    id: int


class OrderModel(BaseModel):
    id: int


def named(client: Client, **how: str) -> Stream[object]:
    return client.stream(f"extensions-{next(_numbers)}", **how)


def filled(client: Client, values: int = 5) -> tuple[Stream[object], list[str]]:
    """A JSON stream of numbers, and the offsets behind them."""
    stream = named(client)
    stream.create()
    return stream, [stream.append(value) for value in range(values)]


def test_a_long_stream_is_read_a_megabyte_at_a_time(client: Client) -> None:
    """The server would give all of it at once, which the client would then hold."""
    stream = named(client)
    stream.create()
    for _ in range(3):
        stream.extend(["x" * 100_000] * 10)
    sizes = [len(page.data) for page in stream.read().pages()]
    assert max(sizes) <= 1024 * 1024 + 2
    assert sum(sizes) > 3_000_000


def test_a_range_is_read_exactly(client: Client) -> None:
    stream, offsets = filled(client)
    assert stream.read(offsets[0], until=offsets[3]).all() == [1, 2, 3]


def test_a_range_of_nothing_is_empty(client: Client) -> None:
    stream, offsets = filled(client)
    assert stream.read(offsets[1], until=offsets[1]).all() == []


def test_the_last_messages_are_read(client: Client) -> None:
    stream, _ = filled(client)
    assert stream.read(last=2).all() == [3, 4]
    assert stream.read(last=3, skip=1).all() == [3, 4]


def test_messages_are_skipped(client: Client) -> None:
    stream, offsets = filled(client)
    assert stream.read(offsets[0], skip=2).all() == [3, 4]


def test_what_came_since_a_time_is_read(client: Client) -> None:
    stream, _ = filled(client)
    assert stream.read(at=datetime.now(UTC) - timedelta(hours=1)).all() == [0, 1, 2, 3, 4]
    assert stream.read(at=datetime.now(UTC) + timedelta(hours=1)).all() == []
    assert stream.read(at=0).all() == [0, 1, 2, 3, 4]


def test_the_last_messages_come_before_what_is_followed(client: Client) -> None:
    stream, _ = filled(client)
    stream.append(5, close=True)
    assert stream.follow(last=2).all() == [4, 5]


def test_the_offset_of_each_value_is_known_within_what_is_read_from_the_end(client: Client) -> None:
    stream, offsets = filled(client)
    reader = stream.read(last=2)
    assert [reader.offset for _ in reader] == offsets[3:]


def test_an_append_happens_only_at_the_expected_tail(client: Client) -> None:
    stream, offsets = filled(client)
    assert stream.append(5, if_match=offsets[4]) > offsets[4]
    with pytest.raises(TailMoved):
        stream.append(6, if_match=offsets[4])


def test_frames_say_when_and_where_each_message_is(client: Client) -> None:
    stream = named(client)
    stream.create(content_type="text/plain")
    offsets = [int(stream.append(text)) for text in ("a", "bcd")]
    (page,) = list(stream.frames())
    assert [frame.payload for frame in page] == [b"a", b"bcd"]
    assert list(page.ends) == offsets


def test_frames_end_where_they_are_told_to(client: Client) -> None:
    stream, offsets = filled(client)
    pages = list(stream.frames(offsets[0], until=offsets[2]))
    assert [frame.payload for page in pages for frame in page] == [b"1", b"2"]


def test_frames_begin_where_a_read_does(client: Client) -> None:
    stream, offsets = filled(client)
    beginnings: list[dict[str, Any]] = [{"last": 3}, {"offset": offsets[0], "skip": 1}, {"at": 0, "skip": 2}]
    for beginning in beginnings:
        pages = list(stream.frames(**beginning))
        assert [frame.payload for page in pages for frame in page] == [b"2", b"3", b"4"], beginning


def test_frames_are_of_one_incarnation(client: Client) -> None:
    stream, offsets = filled(client)
    before = stream.head().incarnation
    assert len(list(stream.frames(incarnation=before))) == 1
    stream.delete()
    stream.create(data=[1, 2, 3, 4])
    with pytest.raises(StreamRewound, match=f"had incarnation {before} and has"):
        list(stream.frames(offsets[0], incarnation=before))


def test_a_fork_begins_as_its_source_and_goes_its_own_way(client: Client) -> None:
    stream, offsets = filled(client)
    fork = stream.fork(f"{stream.name}-fork", offset=offsets[1])
    fork.append("mine")
    stream.append("theirs")
    assert fork.read().all() == [0, 1, "mine"]


def test_a_fork_without_an_offset_is_of_everything(client: Client) -> None:
    stream, _ = filled(client)
    fork = stream.fork(f"{stream.name}-fork", closed=True)
    assert fork.follow().all() == [0, 1, 2, 3, 4]


def test_a_fork_of_a_name_with_odd_characters_finds_its_source(client: Client) -> None:
    stream = client.stream(f"extensions-{next(_numbers)}/a b/ü%")
    stream.create(data=1)
    assert stream.fork(f"{stream.name}-fork").read().all() == [1]


def test_a_fork_may_begin_between_the_bytes_of_an_append(client: Client) -> None:
    stream = named(client)
    stream.create(content_type="text/plain")
    first = stream.append("ab")
    stream.append("cdef")
    fork = stream.fork(f"{stream.name}-fork", offset=first, sub_offset=2)
    assert fork.read().text() == "abcd"


def test_a_lifetime_is_told(client: Client) -> None:
    stream = named(client)
    stream.create(ttl_secs=timedelta(hours=1))
    assert stream.head().ttl_secs == 3600


def test_an_end_is_told(client: Client) -> None:
    stream, noon = named(client), datetime(2100, 1, 1, 12, tzinfo=UTC)
    stream.create(expires_at=noon)
    assert stream.head().expires_at == noon


def test_a_stream_whose_time_is_over_is_gone(client: Client) -> None:
    stream = named(client)
    stream.create(expires_at=datetime.now(UTC) + timedelta(seconds=1.5))
    assert stream.exists()
    sleep(2)
    assert not stream.exists()


def test_two_lifetimes_are_refused(client: Client) -> None:
    with pytest.raises(BadRequest):
        named(client).create(ttl_secs=5, expires_at=datetime(2100, 1, 1, tzinfo=UTC))


def test_a_policy_of_retention_is_told(client: Client) -> None:
    stream = named(client)
    stream.create(retention="max-messages=3")
    assert stream.head().retention == "max-messages=3"


def test_a_stream_that_must_be_new_is_refused_if_it_is_not(client: Client) -> None:
    stream = named(client)
    assert stream.create(exist_ok=False).created
    assert not stream.create().created
    with pytest.raises(StreamExists, match=stream.name):
        stream.create(exist_ok=False)


def test_a_head_names_what_the_server_knows(client: Client) -> None:
    stream, offsets = filled(client)
    head = stream.head()
    assert {"buckets", "frames", "if-match"} <= head.extensions
    assert (head.offset, head.content_type) == (offsets[4], "application/json")


def test_values_are_of_the_users_type(client: Client) -> None:
    name = f"extensions-{next(_numbers)}"
    structs, models = client.stream(name, type=Order), client.stream(name, type=OrderModel)
    structs.create()
    structs.append(Order(1))
    models.append(OrderModel(id=2))
    assert structs.read().all() == [Order(1), Order(2)]
    assert models.read().all() == [OrderModel(id=1), OrderModel(id=2)]


def test_values_of_another_type_are_named(client: Client) -> None:
    stream, _ = filled(client)
    with pytest.raises(InvalidAnswer, match="Expected `object`, got `int`"):
        client.stream(stream.name, type=Order).read().all()
