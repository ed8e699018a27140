"""Moves: which streams changed since somebody last asked."""

import pytest

from everbrook.engine.moves import Ended, Moves
from everbrook.engine.tuning import DEFAULT_TUNING, MovesTuning
from everbrook.protocol import Retention
from everbrook.protocol.errors import InvalidQuery, TokenGone
from tests.engine.rig import DelayedRig, Rig


def noting(tuning: MovesTuning = DEFAULT_TUNING.moves) -> Moves:
    """Moves of which somebody has asked."""
    noted = Moves(10, tuning)
    noted.token()
    return noted


def since(noted: Moves, token: str, prefix: bytes = b"") -> list[bytes]:
    return [name for name, _ in noted.since(token.encode(), prefix, 1000)]


def test_what_moved_is_given_in_the_order_of_the_last_moves() -> None:
    noted = noting()
    token = noted.token()
    for name in (b"a", b"b", b"a", b"c"):
        noted.note(name)
    assert since(noted, token) == [b"b", b"a", b"c"]
    assert since(noted, noted.token()) == []


def test_each_move_comes_with_the_token_to_go_on_from() -> None:
    noted = noting()
    token = noted.token().encode()
    for name in (b"a", b"b", b"c"):
        noted.note(name)
    (_, first), (_, second), (_, last) = noted.since(token, b"", 1000)
    assert since(noted, first) == [b"b", b"c"]
    assert since(noted, second) == [b"c"]
    assert last == noted.token()


def test_only_what_was_asked_for_is_given() -> None:
    noted = noting()
    token = noted.token()
    for name in (b"x/1", b"y/1", b"x/2"):
        noted.note(name)
    assert since(noted, token, b"x/") == [b"x/1", b"x/2"]


def test_a_token_stays_good_while_others_ask() -> None:
    noted = noting()
    early = noted.token()
    noted.note(b"a")
    noted.token()
    noted.note(b"b")
    assert since(noted, early) == [b"a", b"b"]


def test_the_end_of_a_stream_is_known_until_it_is_forgotten_or_made_again() -> None:
    noted = noting(MovesTuning(max_moves=2))
    for name in (b"a", b"b", b"c"):
        noted.note(name, Ended(1, 5))
    assert noted.ended == {b"b": Ended(1, 5), b"c": Ended(1, 5)}
    noted.note(b"c")
    assert noted.ended == {b"b": Ended(1, 5)}


def test_what_moved_too_long_ago_is_forgotten() -> None:
    noted = noting(MovesTuning(max_moves=2))
    early = noted.token()
    noted.note(b"a")
    later = noted.token()
    noted.note(b"b")
    assert since(noted, early) == [b"a", b"b"]
    noted.note(b"c")
    with pytest.raises(TokenGone, match="list everything again"):
        noted.since(early.encode(), b"", 1000)
    assert since(noted, later) == [b"b", b"c"]


def test_names_are_remembered_up_to_so_many_bytes() -> None:
    noted = noting(MovesTuning(max_name_bytes=8))
    early = noted.token()
    noted.note(b"long")
    noted.note(b"long")
    later = noted.token()
    noted.note(b"four")
    assert since(noted, early) == [b"long", b"four"]
    noted.note(b"x")
    assert since(noted, later) == [b"four", b"x"]
    with pytest.raises(TokenGone):
        noted.since(early.encode(), b"", 1000)


def test_a_stream_that_moves_again_and_again_takes_one_place() -> None:
    noted = noting(MovesTuning(max_moves=2))
    early = noted.token()
    for _ in range(10):
        noted.note(b"a")
        noted.note(b"b")
    assert since(noted, early) == [b"a", b"b"]


def test_the_stream_that_has_not_moved_for_longest_is_forgotten_first() -> None:
    noted = noting(MovesTuning(max_moves=2))
    for name in (b"a", b"b"):
        noted.note(name)
    token = noted.token()
    for name in (b"a", b"c"):
        noted.note(name)
    assert since(noted, token) == [b"a", b"c"]


@pytest.mark.parametrize("token", [b"b-0", b"a-1", b"a-99", b"0-0"])
def test_a_token_of_another_run_or_of_the_future_is_gone(token: bytes) -> None:
    with pytest.raises(TokenGone):
        noting().since(token, b"", 1000)


@pytest.mark.parametrize("token", [b"", b"a", b"a-", b"-0", b"a-0x", b"A-0", b"a-0-0", b"\xff-0", b"a" * 17 + b"-0"])
def test_another_token_is_refused(token: bytes) -> None:
    with pytest.raises(InvalidQuery, match="changed_since must be the token of an earlier listing, got"):
        noting().since(token, b"", 1000)


# What moves a stream


def moved(rig: Rig, token: str) -> list[bytes]:
    return since(rig.engine.moves, token)


def test_nothing_is_noted_before_somebody_asks(rig: Rig) -> None:
    rig.create(b"a")
    assert rig.engine.inspect().moved_streams == 0


def test_a_stream_moves_when_it_is_created_written_closed_cut_or_deleted(rig: Rig) -> None:
    asked = rig.engine.moves.token()
    rig.create(b"a")
    tokens = [asked, rig.engine.moves.token()]
    steps = (
        lambda: rig.append(b"a", b"1"),
        lambda: rig.append(b"a", close=True),
        lambda: rig.publish(b"a", 1),
        lambda: rig.delete(b"a"),
    )
    for step in steps:
        step()
        tokens.append(rig.engine.moves.token())
    assert len(set(tokens)) == 6
    assert [moved(rig, token) for token in tokens] == [[b"a"]] * 5 + [[]]


def test_a_policy_moves_a_stream(rig: Rig) -> None:
    rig.create(b"a", b"1", retention=Retention(max_messages=1))
    rig.append(b"a", b"2")
    token = rig.engine.moves.token()
    rig.scheduler.advance(2000)
    assert moved(rig, token) == [b"a"]


def test_the_end_of_a_stream_whose_time_runs_out_is_known(rig: Rig) -> None:
    rig.engine.moves.token()
    rig.create(b"a", b"12", ttl_secs=9)
    incarnation = rig.engine.readers.find(b"a", rig.clock.now()).committed.identity.incarnation
    rig.scheduler.advance(60_000)
    assert rig.engine.find_ended(b"a") == rig.engine.moves.ended[b"a"] == Ended(incarnation, 2)


def test_reading_moves_nothing(rig: Rig) -> None:
    rig.create(b"a", b"1", ttl_secs=9)
    token = rig.engine.moves.token()
    rig.content(b"a")
    rig.create(b"a", ttl_secs=9)
    assert moved(rig, token) == []


def test_a_stream_moves_when_that_is_durable(delayed: DelayedRig) -> None:
    token = delayed.engine.moves.token()
    delayed.create(b"a")
    assert moved(delayed, token) == []
    delayed.let_everything_arrive()
    assert moved(delayed, token) == [b"a"]


def test_tokens_of_an_earlier_run_are_gone(rig: Rig) -> None:
    token = rig.engine.moves.token()
    rig.restart()
    with pytest.raises(TokenGone):
        moved(rig, token)


def test_a_page_of_what_moved_goes_on_by_its_last_token() -> None:
    noted = noting()
    token = noted.token().encode()
    for name in (b"a", b"b", b"c", b"a"):
        noted.note(name)
    [first, second] = noted.since(token, b"", 2)
    assert [first[0], second[0]] == [b"b", b"c"]
    assert [name for name, _ in noted.since(second[1].encode(), b"", 2)] == [b"a"]


def test_streams_that_move_again_and_again_take_little() -> None:
    noted = noting(MovesTuning(min_log=4))
    token = noted.token().encode()
    for _ in range(100):
        noted.note(b"a")
        noted.note(b"b")
    assert noted.log_length <= 2 * 2 + 5
    assert [name for name, _ in noted.since(token, b"", 10)] == [b"a", b"b"]
