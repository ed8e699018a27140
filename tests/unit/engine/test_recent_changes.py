"""Recent changes: which streams changed since somebody last asked."""

import pytest

from everbrook.engine.recent_changes import Ended, RecentChanges, end_of
from everbrook.engine.tuning import DEFAULT_TUNING, RecentChangesTuning
from everbrook.protocol import Create, ForkFrom, Retention
from everbrook.protocol.errors import InvalidQuery, TokenGone
from tests.unit.engine.rig import DelayedRig, Rig


def recording(tuning: RecentChangesTuning = DEFAULT_TUNING.recent_changes) -> RecentChanges:
    """Recent changes after somebody has asked for a token."""
    changes = RecentChanges(10, tuning)
    changes.token()
    return changes


def since(changes: RecentChanges, token: str, prefix: bytes = b"") -> list[bytes]:
    found = [change for change, _ in changes.since(token.encode(), prefix, 1000)]
    return [change.name if isinstance(change, Ended) else change for change in found]


def ends(changes: RecentChanges, token: str) -> list[Ended]:
    return [change for change, _ in changes.since(token.encode(), b"", 1000) if isinstance(change, Ended)]


def test_changed_streams_are_given_in_the_order_of_their_last_changes() -> None:
    changes = recording()
    token = changes.token()
    for name in (b"a", b"b", b"a", b"c"):
        changes.record(name)
    assert since(changes, token) == [b"b", b"a", b"c"]
    assert since(changes, changes.token()) == []


def test_each_move_comes_with_the_token_to_go_on_from() -> None:
    changes = recording()
    token = changes.token().encode()
    for name in (b"a", b"b", b"c"):
        changes.record(name)
    (_, first), (_, second), (_, last) = changes.since(token, b"", 1000)
    assert since(changes, first) == [b"b", b"c"]
    assert since(changes, second) == [b"c"]
    assert last == changes.token()


def test_only_what_was_asked_for_is_given() -> None:
    changes = recording()
    token = changes.token()
    for name in (b"x/1", b"y/1", b"x/2"):
        changes.record(name)
    assert since(changes, token, b"x/") == [b"x/1", b"x/2"]


def test_a_token_stays_good_while_others_ask() -> None:
    changes = recording()
    early = changes.token()
    changes.record(b"a")
    changes.token()
    changes.record(b"b")
    assert since(changes, early) == [b"a", b"b"]


def test_each_end_of_a_stream_is_told_also_if_its_name_exists_again() -> None:
    changes = recording()
    token = changes.token()
    for incarnation in (1, 2):
        changes.record(b"a")
        changes.record_end(Ended(b"a", incarnation, 5))
    changes.record(b"a")
    found = [change for change, _ in changes.since(token.encode(), b"", 1000)]
    assert found == [Ended(b"a", 1, 5), Ended(b"a", 2, 5), b"a"]


def test_ends_of_streams_are_forgotten_as_changes_are() -> None:
    changes = recording(RecentChangesTuning(max_streams=2))
    early = changes.token()
    changes.record_end(Ended(b"a", 1, 5))
    later = changes.token()
    for incarnation in (2, 3):
        changes.record_end(Ended(b"a", incarnation, 5))
    assert (changes.count, ends(changes, later)) == (2, [Ended(b"a", 2, 5), Ended(b"a", 3, 5)])
    with pytest.raises(TokenGone):
        ends(changes, early)


def test_what_changed_too_long_ago_is_forgotten() -> None:
    changes = recording(RecentChangesTuning(max_streams=2))
    early = changes.token()
    changes.record(b"a")
    later = changes.token()
    changes.record(b"b")
    assert since(changes, early) == [b"a", b"b"]
    changes.record(b"c")
    with pytest.raises(TokenGone, match="list all streams again"):
        changes.since(early.encode(), b"", 1000)
    assert since(changes, later) == [b"b", b"c"]


def test_names_are_remembered_up_to_so_many_bytes() -> None:
    changes = recording(RecentChangesTuning(max_name_bytes=8))
    early = changes.token()
    changes.record(b"long")
    changes.record(b"long")
    later = changes.token()
    changes.record(b"four")
    assert since(changes, early) == [b"long", b"four"]
    changes.record(b"x")
    assert since(changes, later) == [b"four", b"x"]
    with pytest.raises(TokenGone):
        changes.since(early.encode(), b"", 1000)


def test_a_stream_that_moves_again_and_again_takes_one_place() -> None:
    changes = recording(RecentChangesTuning(max_streams=2))
    early = changes.token()
    for _ in range(10):
        changes.record(b"a")
        changes.record(b"b")
    assert since(changes, early) == [b"a", b"b"]


def test_the_stream_that_has_not_changed_for_longest_is_forgotten_first() -> None:
    changes = recording(RecentChangesTuning(max_streams=2))
    for name in (b"a", b"b"):
        changes.record(name)
    token = changes.token()
    for name in (b"a", b"c"):
        changes.record(name)
    assert since(changes, token) == [b"a", b"c"]


@pytest.mark.parametrize("token", [b"b-0", b"a-1", b"a-99", b"0-0"])
def test_a_token_of_another_run_or_of_the_future_is_gone(token: bytes) -> None:
    with pytest.raises(TokenGone):
        recording().since(token, b"", 1000)


@pytest.mark.parametrize("token", [b"", b"a", b"a-", b"-0", b"a-0x", b"A-0", b"a-0-0", b"\xff-0", b"a" * 17 + b"-0"])
def test_another_token_is_refused(token: bytes) -> None:
    with pytest.raises(InvalidQuery, match="changed_since must be the token of an earlier listing, got"):
        recording().since(token, b"", 1000)


# What moves a stream


def changed(rig: Rig, token: str) -> list[bytes]:
    return since(rig.engine.recent_changes, token)


def test_nothing_is_noted_before_somebody_asks(rig: Rig) -> None:
    rig.create(b"a")
    assert rig.engine.inspect().changed_streams == 0


def test_a_stream_moves_when_it_is_created_written_closed_cut_or_deleted(rig: Rig) -> None:
    asked = rig.engine.recent_changes.token()
    rig.create(b"a")
    tokens = [asked, rig.engine.recent_changes.token()]
    steps = (
        lambda: rig.append(b"a", b"1"),
        lambda: rig.append(b"a", close=True),
        lambda: rig.publish(b"a", 1),
        lambda: rig.delete(b"a"),
    )
    for step in steps:
        step()
        tokens.append(rig.engine.recent_changes.token())
    assert len(set(tokens)) == 6
    assert [changed(rig, token) for token in tokens] == [[b"a"]] * 5 + [[]]


def test_a_policy_moves_a_stream(rig: Rig) -> None:
    rig.create(b"a", b"1", retention=Retention(max_messages=1))
    rig.append(b"a", b"2")
    token = rig.engine.recent_changes.token()
    rig.scheduler.advance(2000)
    assert changed(rig, token) == [b"a"]


def test_the_end_of_a_stream_whose_time_runs_out_is_known(rig: Rig) -> None:
    token = rig.engine.recent_changes.token()
    rig.create(b"a", b"12", ttl_secs=9)
    end = end_of(rig.engine.readers.find(b"a", rig.clock.now()).committed)
    assert rig.engine.find_ended(b"a") == end
    rig.scheduler.advance(60_000)
    assert ends(rig.engine.recent_changes, token) == [end]
    assert rig.engine.find_ended(b"a") is None


def test_a_stream_with_forks_ends_once(rig: Rig) -> None:
    token = rig.engine.recent_changes.token()
    rig.create(b"a", b"12")
    now, fork = rig.clock.now(), ForkFrom(b"a", 2)
    rig.engine.execute(Create(b"fork", now, rig.engine.new_incarnation(), None, b"", fork=fork))
    rig.delete(b"a")
    assert len(ends(rig.engine.recent_changes, token)) == 1
    token = rig.engine.recent_changes.token()
    rig.delete(b"fork")
    assert [end.name for end in ends(rig.engine.recent_changes, token)] == [b"fork"]


def test_reading_moves_nothing(rig: Rig) -> None:
    rig.create(b"a", b"1", ttl_secs=9)
    token = rig.engine.recent_changes.token()
    rig.content(b"a")
    rig.create(b"a", ttl_secs=9)
    assert changed(rig, token) == []


def test_a_stream_moves_when_that_is_durable(delayed: DelayedRig) -> None:
    token = delayed.engine.recent_changes.token()
    delayed.create(b"a")
    assert changed(delayed, token) == []
    delayed.let_everything_arrive()
    assert changed(delayed, token) == [b"a"]


def test_tokens_of_an_earlier_run_are_gone(rig: Rig) -> None:
    token = rig.engine.recent_changes.token()
    rig.restart()
    with pytest.raises(TokenGone):
        changed(rig, token)


def test_a_page_of_changes_goes_on_by_its_last_token() -> None:
    changes = recording()
    token = changes.token().encode()
    for name in (b"a", b"b", b"c", b"a"):
        changes.record(name)
    [first, second] = changes.since(token, b"", 2)
    assert [first[0], second[0]] == [b"b", b"c"]
    assert [name for name, _ in changes.since(second[1].encode(), b"", 2)] == [b"a"]


def test_streams_that_move_again_and_again_take_little() -> None:
    changes = recording(RecentChangesTuning(min_log=4))
    token = changes.token().encode()
    for _ in range(100):
        changes.record(b"a")
        changes.record(b"b")
    assert changes.log_length <= 2 * 2 + 5
    assert [name for name, _ in changes.since(token, b"", 10)] == [b"a", b"b"]
