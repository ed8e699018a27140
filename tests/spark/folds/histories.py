"""Generated histories: changes in both dialects, of few entities so that they meet; controls; what is no change."""

from typing import Any

from hypothesis import strategies as st

from everbrook import Client, InvalidChange, Snapshot, Stream
from everbrook.protocol import State, parse_message, parse_snapshot

Json = Any
Plain = dict[str, dict[str, Json]]

_TYPES, _KEYS = st.sampled_from(["user", "message"]), st.sampled_from(["1", "2", "ключ"])
_VALUES = st.one_of(
    st.none(),
    st.integers(-5, 5),
    st.sampled_from(["", "tea", 'a "quoted" text', "\U0001f600", 1.5, 2**70]),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3), max_size=2),
)
_TIMES = st.fixed_dictionaries({}, optional={"txid": st.just("t1"), "timestamp": st.just("2026-01-01T10:00:00Z")})


def _state_change(type_: str, key: str, operation: str, value: Json, headers: dict[str, str]) -> Json:
    valued = {} if operation == "delete" else {"value": value}
    return {"type": type_, "key": key, **valued, "headers": {"operation": operation, **headers}}


def _session_event(type_: str, key: str, operation: str, value: Json) -> Json:
    return {"key": key, "type": type_, "operation": operation, **({} if operation == "remove" else {"value": value})}


state_changes = st.builds(
    _state_change, _TYPES, _KEYS, st.sampled_from(["insert", "update", "upsert", "delete"]), _VALUES, _TIMES
)
session_events = st.builds(
    _session_event, _TYPES, _KEYS, st.sampled_from(["set", "remove", "append", "append"]), _VALUES
)
controls = st.builds(
    lambda control, offset: {"headers": {"control": control, **offset}},
    st.sampled_from(["reset", "snapshot-start", "snapshot-end"]),
    st.sampled_from([{}, {"offset": "12"}]),
)
no_changes = st.sampled_from(
    [
        1,
        None,
        [1],
        {},
        {"type": "user"},
        {"type": "user", "key": "1", "headers": {"operation": "upsert"}},
        {"type": "", "key": "1", "value": 1, "headers": {"operation": "insert"}},
        {"type": "user", "key": 1, "value": 1, "operation": "set"},
        {"type": "user", "key": "1", "value": 1, "operation": ["set"]},
        {"type": "user", "key": "1", "value": 1, "headers": None, "operation": "set"},
        {"type": "user", "key": "1", "value": 1, "headers": {"operation": "set"}},
        {"type": "user", "key": "1", "value": 1, "headers": {"operation": "insert", "timestamp": "noon"}},
    ]
)
messages = st.one_of(state_changes, session_events, session_events, controls)
histories = st.lists(messages, min_size=1, max_size=40)
spoilt_histories = st.lists(st.one_of(messages, messages, no_changes), max_size=40)


def plain(state: Any) -> Plain:  # noqa: ANN401 - of the protocol or of the client
    return {type_: dict(entities) for type_, entities in state.items()}


def applied(messages: list[Json], state: State | None = None) -> State:
    """Apply messages by the rules, one by one. What is no change is passed over."""
    state = state or State()
    for message in messages:
        try:
            state.apply(parse_message(message))
        except InvalidChange:
            continue
    return state


def replayed(stream: Stream[Any]) -> Plain:
    """Read a stream as any client does: from its beginning, or from its snapshot if that is cut."""
    with stream.materialise(on_invalid=lambda _error: None) as state:
        return plain(state)


def bootstrapped(stream: Stream[Any]) -> Plain:
    """Begin with the snapshot, and apply what comes behind it."""
    found = stream.bootstrap()
    return plain(applied(found.messages, restored(found.snapshot)))


def restored(snapshot: Snapshot | None) -> State:
    """Give the state of a snapshot."""
    state = State()
    for change in parse_snapshot(snapshot.data if snapshot else b""):
        state.apply(change)
    return state


def written(client: Client, name: str, messages: list[Json]) -> Stream[Any]:
    """Create a stream with messages in it."""
    stream = client.stream(name)
    stream.create()
    if messages:
        stream.extend(messages)
    return stream
