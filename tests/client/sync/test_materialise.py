# Written by tools/mirror.py from tests/client/async_/test_materialise.py: change that file, not this one.
"""A materialised state: the current value per type and key, of a stream on a real server."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from everbrook import Append, InvalidChange, Remove, Set
from everbrook.client import Mode, session_events, state_events
from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import spawn
from everbrook.client._sync.materialise import Materialiser
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import ChangesMissed, StateEnded
from everbrook.client.timeouts import ClientTuning
from everbrook.protocol import StateMessage
from everbrook.protocol.errors import StreamNotFound
from tests.kit.faults.proxy import Proxy

ADA, BOB = {"name": "Ada"}, {"name": "Bob"}
PATIENCE_SECS = 60.0

_numbers = count()


@pytest.fixture
def stream(client: Client) -> Stream[Any]:
    created = client.stream(f"state-{next(_numbers)}")
    created.create()
    return created


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    with Proxy(int(server.rpartition(":")[2])) as running:
        yield running


def enter(state: Materialiser) -> None:
    with state:
        pass


def test_it_is_current_once_it_is_entered(stream: Stream[Any]) -> None:
    stream.extend([state_events.insert("user", "1", ADA), state_events.update("user", "1", BOB)])
    offset = stream.append(session_events.set("presence", "1", "online"))
    with stream.materialise() as state:
        assert state == {"user": {"1": BOB}, "presence": {"1": "online"}}
        assert (state.offset, state.closed) == (offset, False)


def test_it_is_current_after_all_the_pages_of_a_long_stream(stream: Stream[Any]) -> None:
    stream.extend([state_events.insert("text", str(number), "x" * 100_000) for number in range(60)])
    with stream.materialise() as state:
        assert len(state["text"]) == 60


def test_it_is_kept_current(stream: Stream[Any]) -> None:
    with stream.materialise() as state:
        users = state["user"]
        assert (len(state), "user" in state, users.get("1")) == (0, False, None)
        stream.append(state_events.insert("user", "1", ADA))
        assert state.wait_for(lambda now: now["user"].get("1"), PATIENCE_SECS) == ADA
        stream.append(state_events.delete("user", "1"))
        state.wait_for(lambda _: not users, PATIENCE_SECS)
        assert list(state) == []


@pytest.mark.parametrize("mode", ["sse", "long-poll"])
def test_it_follows_in_either_mode(stream: Stream[Any], mode: Mode) -> None:
    with stream.materialise(mode=mode) as state:
        for text in ("Hel", "lo"):
            stream.append(session_events.append("chunk", "msg:1", text))
        state.wait_for(lambda now: now["chunk"].get("msg:1") == "Hello", PATIENCE_SECS)


def test_broken_connections_go_unnoticed(proxy: Proxy, stream: Stream[Any]) -> None:
    """A list that grows shows what is lost and what is repeated."""
    with Client(proxy.origin) as client, client.stream(stream.name).materialise() as state:
        for number in range(1, 7):
            offset = stream.append(session_events.append("log", "1", number))
            state.wait_for_offset(offset, PATIENCE_SECS)
            proxy.cut_all()
        assert state["log"]["1"] == [1, 2, 3, 4, 5, 6]


def test_a_transaction_is_waited_for(stream: Stream[Any]) -> None:
    with stream.materialise() as state:
        both = [state_events.insert("user", key, ADA, txid="t-1") for key in "12"]
        stream.extend(both)
        state.wait_for_txid("t-1", PATIENCE_SECS)
        assert state["user"] == {"1": ADA, "2": ADA}


def test_one_sees_what_one_has_written(stream: Stream[Any]) -> None:
    with stream.materialise() as state:
        for number in range(20):
            state.wait_for_offset(stream.append(session_events.set("n", "1", number)), PATIENCE_SECS)
            assert state["n"]["1"] == number


def test_waiting_ends_when_it_is_late(stream: Stream[Any]) -> None:
    with stream.materialise() as state, pytest.raises(TimeoutError, match=r"did not come within 0\.01 s"):
        state.wait_for_txid("never", 0.01)


def test_changes_come_one_by_one_until_the_stream_is_closed(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "0", ADA))
    with stream.materialise() as state:
        changes = state.changes()
        stream.append(state_events.insert("user", "1", ADA, txid="t"))
        stream.append(session_events.append("chunk", "m", "Hi"))
        stream.close(state_events.delete("user", "0"))
        assert list(changes) == [
            Set("user", "1", ADA, "insert", txid="t"),
            Append("chunk", "m", "Hi"),
            Remove("user", "0"),
        ]
        assert state == {"user": {"1": ADA}, "chunk": {"m": "Hi"}}
        assert state.closed


def test_what_a_closed_stream_does_not_have_is_not_waited_for(stream: Stream[Any]) -> None:
    stream.close(state_events.insert("user", "1", ADA))
    with stream.materialise() as state:
        assert state.wait_for(lambda now: now["user"].get("1")) == ADA
        with pytest.raises(StateEnded, match="can't arrive any more"):
            state.wait_for(lambda now: now["user"].get("2"))


def test_whoever_waits_is_told_when_the_state_is_closed(stream: Stream[Any]) -> None:
    state = stream.materialise()
    with state:
        waiting = spawn(state.wait_for, lambda now: now["user"].get("1"), name="waiting")
        changes = state.changes()
    with pytest.raises(StateEnded):
        waiting.join()
    assert list(changes) == []


def test_a_state_is_entered_once_and_what_it_held_stays(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "1", ADA))
    with stream.materialise() as state:
        pass
    with pytest.raises(RuntimeError, match="entered only once"):
        state.__enter__()
    assert state == {"user": {"1": ADA}}


def test_a_reset_empties_it(stream: Stream[Any]) -> None:
    stream.extend([state_events.insert("user", "1", ADA), state_events.reset()])
    stream.append(state_events.insert("user", "2", BOB))
    with stream.materialise() as state:
        assert state == {"user": {"2": BOB}}


def test_a_snapshot_of_it_stays_as_it_is(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "1", ADA))
    with stream.materialise() as state:
        before = state.snapshot()
        stream.append(state_events.reset())
        state.wait_for(lambda now: not now, PATIENCE_SECS)
        assert before == {"user": {"1": ADA}}


def test_nobody_sees_half_of_what_came_together(stream: Stream[Any]) -> None:
    with stream.materialise() as state:
        for number in range(50):
            stream.extend([session_events.set("n", key, number) for key in "ab"])
            seen = state.snapshot().get("n", {})
            assert seen.get("a") == seen.get("b")


def test_it_says_what_it_is(stream: Stream[Any]) -> None:
    offset = stream.extend([session_events.set("n", key, 1) for key in "ab"])
    with stream.materialise() as state:
        assert repr(state) == f"<Materialiser {stream.url} at {offset} (n: 2)>"


def test_a_stream_that_is_deleted_has_no_state_any_more(stream: Stream[Any]) -> None:
    stream.append(state_events.insert("user", "1", ADA))
    with stream.materialise() as state:
        stream.delete()
        with pytest.raises(StreamNotFound):
            state.wait_for_txid("t", PATIENCE_SECS)
        with pytest.raises(StreamNotFound):
            state["user"]


def test_a_stream_that_is_not_there_has_no_state(client: Client) -> None:
    with pytest.raises(StreamNotFound):
        enter(client.stream("state-missing").materialise())


def test_a_stream_of_text_has_no_state(client: Client) -> None:
    stream = client.stream("state-text")
    stream.create(content_type="text/plain")
    with pytest.raises(ValueError, match=r"a state needs a stream of application/json, but .* has text/plain"):
        enter(stream.materialise())


def test_a_message_that_is_no_change_ends_it_and_says_where(stream: Stream[Any]) -> None:
    at = stream.append(state_events.insert("user", "1", ADA))
    stream.append({"hello": "world"})
    with pytest.raises(InvalidChange, match="must have headers or an operation") as refusal:
        enter(stream.materialise())
    assert refusal.value.__notes__ == [f"the message at {at} of {stream.url}"]


def test_whoever_looks_is_told_that_it_is_not_current(stream: Stream[Any]) -> None:
    with stream.materialise() as state:
        changes = state.changes()
        stream.append(session_events.set("user", "1", ADA))
        stream.append({"hello": "world"})
        with pytest.raises(InvalidChange):
            state.wait_for_txid("t", PATIENCE_SECS)
        with pytest.raises(InvalidChange):
            state["user"]
        assert next(changes) == Set("user", "1", ADA)
        with pytest.raises(InvalidChange):
            next(changes)


def test_what_is_no_change_is_handed_over_and_passed_by(stream: Stream[Any]) -> None:
    stream.extend([7, session_events.set("n", "1", 1), session_events.append("n", "1", 1)])
    refused: list[InvalidChange] = []
    with stream.materialise(on_invalid=refused.append) as state:
        assert state == {"n": {"1": 1}}
    assert [str(error) for error in refused] == [
        "a change must be a JSON object, got 7",
        "n '1' is 1, to which 1 cannot be appended",
    ]


@pytest.mark.parametrize("number", [b"1e999", b"1" * 5000])
def test_a_message_that_can_t_be_read_is_no_change_and_takes_no_other_with_it(
    stream: Stream[Any], number: bytes
) -> None:
    stream.append(session_events.set("n", "1", 1))
    at = stream.append(session_events.set("n", "2", 2))
    stream.append(b'{"type": "n", "key": "1", "operation": "set", "value": %b}' % number)
    stream.append(session_events.set("n", "3", 3))
    refused: list[InvalidChange] = []
    with stream.materialise(on_invalid=refused.append) as state:
        assert (state.snapshot(), len(refused)) == ({"n": {"1": 1, "2": 2, "3": 3}}, 1)
    with pytest.raises(InvalidChange, match="must be JSON that can be read, got b'") as refusal:
        enter(stream.materialise())
    assert refusal.value.__notes__ == [f"the message at {at} of {stream.url}"]


@pytest.mark.parametrize("beside", [b"1", b"1e999"])
def test_a_lone_surrogate_in_a_value_is_the_replacement_character(stream: Stream[Any], beside: bytes) -> None:
    """Gap G-03: it takes no message with it, not even where another one can't be read."""
    stream.append(rb'{"type": "n", "key": "1", "operation": "set", "value": "\ud83d"}')
    stream.append(b'{"type": "n", "key": "2", "operation": "set", "value": %b}' % beside)
    refused: list[InvalidChange] = []
    with stream.materialise(on_invalid=refused.append) as state:
        assert (state["n"]["1"], len(refused)) == ("\ufffd", int(beside != b"1"))


def test_changes_that_nobody_takes_are_not_kept_for_ever(stream: Stream[Any]) -> None:
    with Materialiser(stream, tuning=ClientTuning(max_waiting_changes=2)) as state:
        changes = state.changes()
        stream.extend([state_events.insert("n", key, 1) for key in "abc"])
        state.wait_for(lambda now: len(now["n"]) == 3, PATIENCE_SECS)
        taken: list[StateMessage] = [next(changes), next(changes)]
        with pytest.raises(ChangesMissed, match="more than 2 changes were waiting"):
            next(changes)
    assert taken == [Set("n", "a", 1, "insert"), Set("n", "b", 1, "insert")]
