"""The state that folds build: the same as every reader's, whatever comes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from everbrook import InvalidChange
from everbrook.protocol import State, format_snapshot, parse_message, parse_snapshot
from everbrook.spark.folds.folded_state import FoldedState, decode_messages
from tests.spark.folds.histories import applied, histories, plain, spoilt_histories


def _folded(messages: list[Any], state: FoldedState | None = None) -> tuple[FoldedState, list[int]]:
    state, refused = state or FoldedState(), list[int]()
    encoded = b",".join(map(msgspec.json.encode, messages))
    state.take(decode_messages(encoded), lambda number, _error: refused.append(number))
    return state, refused


def _of(snapshot: bytes) -> State:
    state = State()
    for change in parse_snapshot(snapshot):
        state.apply(change)
    return state


@given(spoilt_histories)
def test_a_fold_comes_to_the_state_of_every_reader(messages: list[Any]) -> None:
    state, _ = _folded(messages)
    assert plain(_of(state.format())) == plain(applied(messages))


@given(spoilt_histories)
def test_a_snapshot_is_written_as_every_client_writes_it(messages: list[Any]) -> None:
    assert _folded(messages)[0].format() == format_snapshot(applied(messages))


@given(spoilt_histories)
def test_what_is_no_change_is_told_by_its_place(messages: list[Any]) -> None:
    state = State()
    expected = [number for number, message in enumerate(messages) if not _applies(state, message)]
    assert _folded(messages)[1] == expected


def _applies(state: State, message: object) -> bool:
    try:
        state.apply(parse_message(message))
    except InvalidChange:
        return False
    return True


@given(histories, histories)
def test_a_fold_goes_on_from_its_snapshot(before: list[Any], after: list[Any]) -> None:
    state = FoldedState()
    state.restore(_folded(before)[0].format())
    assert plain(_of(_folded(after, state)[0].format())) == plain(applied(before + after))


def test_a_message_that_can_not_be_read_spoils_no_other() -> None:
    good = b'{"type":"user","key":"1","value":1,"operation":"set"}'
    messages = decode_messages(good + b',{"type":"user","key":"2","value":1e999,"operation":"set"},' + good)
    state, refused = FoldedState(), list[int]()
    state.take(messages, lambda number, _error: refused.append(number))
    assert (state.count, refused) == (1, [1])


def test_a_text_grows_by_pieces_in_a_time_that_grows_with_them() -> None:
    state, _ = _folded([{"type": "a", "key": "1", "operation": "append", "value": "word "}] * 50_000)
    assert plain(_of(state.format())) == {"a": {"1": "word " * 50_000}}


@pytest.mark.parametrize("snapshot", [b"{}", b"[1]", b"no JSON"])
def test_what_is_no_snapshot_of_a_state_is_refused(snapshot: bytes) -> None:
    with pytest.raises(InvalidChange):
        FoldedState().restore(snapshot)


def test_lone_surrogates_hold_up_no_fold() -> None:
    """Gap G-03: neither in messages, nor in a snapshot that somebody else published."""
    change = rb'{"type":"t","key":"k","value":"\ud83d","headers":{"operation":"insert"}}'
    state = FoldedState()
    state.restore(b"[%b]" % change)
    state.take(decode_messages(change.replace(b'"k"', b'"l"') + b',"' + b"9" * 5 + b'"'), lambda _number, _error: None)
    assert plain(_of(state.format())) == {"t": {"k": "\ufffd", "l": "\ufffd"}}
