# Written by tools/mirror.py from tests/client/async_/test_materialise_snapshots.py: change that file, not this one.
"""A materialised state that begins with a snapshot, and one whose values have types."""

from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx2
import msgspec
import pydantic
import pytest

from everbrook import InvalidChange, Reset, Set
from everbrook.client import session_events, state_events
from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import sleep
from everbrook.client._sync.materialise import Materialiser
from everbrook.client._sync.stream import Stream
from everbrook.protocol.errors import IncarnationMismatch

ADA, BOB = {"name": "Ada"}, {"name": "Bob"}
PATIENCE_SECS = 60.0

_numbers = count()


@pytest.fixture
def stream(client: Client) -> Stream[Any]:
    created = client.stream(f"snapshot-of-state-{next(_numbers)}")
    created.create()
    return created


def enter(state: Materialiser) -> None:
    with state:
        pass


def test_it_begins_with_the_snapshot_where_history_was_cut(stream: Stream[Any]) -> None:
    stream.extend([state_events.insert("user", "1", ADA), state_events.insert("user", "2", BOB)])
    with stream.materialise() as state:
        state.publish()
    stream.append(state_events.delete("user", "1"))
    assert list(stream.read(state.offset)) == [state_events.delete("user", "1")]
    with stream.materialise() as again:
        assert again == {"user": {"2": BOB}}


def test_a_state_is_no_snapshot_of_a_later_stream_of_the_same_name(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "1", ADA))
    with stream.materialise() as state:
        state.close()
        stream.delete()
        stream.create()
        stream.append(state_events.insert("user", "2", ADA))
        with pytest.raises(IncarnationMismatch):
            state.publish()
    assert stream.read().all() == [state_events.insert("user", "2", ADA)]


def test_a_snapshot_may_be_written_by_others_in_either_dialect(stream: Stream[Any]) -> None:
    offset = stream.append(state_events.insert("user", "1", ADA))
    snapshot = b'[{"key": "m", "type": "chunk", "operation": "append", "value": "Hel"}]'
    stream.publish(snapshot, offset=offset)
    stream.append(session_events.append("chunk", "m", "lo"))
    with stream.materialise() as state:
        assert state == {"chunk": {"m": "Hello"}}


def test_a_snapshot_that_is_no_state_ends_it(stream: Stream[Any]) -> None:
    offset = stream.append(state_events.insert("user", "1", ADA))
    stream.publish(b"{}", offset=offset)
    with pytest.raises(InvalidChange, match="a snapshot of a state must be a JSON array"):
        enter(stream.materialise())


class Struct(msgspec.Struct):
    name: str


@dataclass
class Data:
    name: str


class Model(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize("user", [Struct(name="Ada"), Data(name="Ada"), Model(name="Ada")])
def test_values_are_decoded_into_the_type_that_is_given(stream: Stream[Any], user: object) -> None:
    stream.extend([state_events.insert("user", "1", user), state_events.insert("tag", "1", ADA)])
    with stream.materialise(types={"user": type(user)}) as state:
        assert state == {"user": {"1": user}, "tag": {"1": ADA}}


def test_a_value_that_does_not_fit_its_type_is_no_change(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "1", {"name": 7}))
    with pytest.raises(InvalidChange, match=r"{'name': 7} is no value of type user: .*at `\$\.name`"):
        enter(stream.materialise(types={"user": Struct}))


def test_a_snapshot_keeps_what_a_type_does_not_know(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "1", {"name": "Ada", "age": 36}))
    with stream.materialise(types={"user": Struct}) as state:
        state.publish()
    with stream.materialise() as again:
        assert again == {"user": {"1": {"name": "Ada", "age": 36}}}


class Gate(httpx2.HTTPTransport):
    """A way to the server that can be shut. Tells how many live reads it has let through."""

    shut = False
    live_reads = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.shut:
            raise httpx2.ConnectError("the gate is shut")
        self.live_reads += "live=" in str(request.url)
        return super().handle_request(request)


def test_a_state_that_fell_behind_a_cut_begins_anew(server: str, stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "0", ADA))
    gate = Gate()
    with (
        httpx2.Client(transport=gate) as http,
        Client(server, http=http).stream(stream.name).materialise(mode="long-poll") as state,
    ):
        changes = state.changes()
        while not gate.live_reads:
            sleep(0.01)
        gate.shut = True
        stream.append(state_events.insert("user", "1", ADA))
        state.wait_for(lambda now: "1" in now["user"], PATIENCE_SECS)
        offset = stream.append(state_events.insert("user", "2", ADA))
        stream.publish(b'[{"key": "3", "type": "user", "operation": "set", "value": 3}]', offset=offset)
        gate.shut = False
        state.wait_for(lambda now: "3" in now["user"], PATIENCE_SECS)
        assert state == {"user": {"3": 3}}
        assert state.offset == offset
        seen = [next(changes), next(changes), next(changes)]
        assert seen == [Set("user", "1", ADA, "insert"), Reset(), Set("user", "3", 3)]
