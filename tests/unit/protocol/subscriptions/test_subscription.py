"""A subscription is what its events make of it, and they are stored without loss."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.subscriptions import (
    BEFORE_FIRST,
    Config,
    Ended,
    Event,
    Held,
    Link,
    Subscription,
    Wake,
    decode_events,
    fold,
)
from everbrook.protocol.subscriptions.subscription import (
    Delivered,
    Failed,
    Linked,
    Stated,
    Unlinked,
    Woken,
    encode_events,
    format_position,
)
from tests.kit.generated import generated

numbers = st.integers(-1, 2**62)
texts = st.text(max_size=8)
links = st.dictionaries(texts, st.builds(Link, numbers, numbers), max_size=3)
wakes = st.builds(Wake, texts, links, st.none() | texts, st.none() | numbers)
configs = st.builds(
    Config, st.sampled_from(["webhook", "pull-wake"]), st.none() | texts, st.just(("a", "b")), lease_ttl_ms=numbers
)
subscriptions = st.builds(
    Subscription,
    texts,
    texts,
    texts,
    numbers,
    configs,
    st.sets(texts, max_size=3),
    links,
    numbers,
    st.none() | wakes,
    numbers,
    numbers,
)
kinds: list[st.SearchStrategy[Event]] = [
    st.builds(Linked, links),
    st.builds(Unlinked, texts, st.booleans()),
    st.builds(Woken, numbers, wakes),
    st.builds(Held, st.none() | texts, numbers, links),
    st.builds(Ended, links),
    st.builds(Failed, numbers, numbers),
    st.builds(Delivered),
    st.builds(Stated, subscriptions),
]
events = st.lists(st.one_of(kinds), max_size=4)


def subscription(wake: Wake | None = None) -> Subscription:
    """A subscription to `a`, explicitly, and `b`."""
    config = Config("webhook", "*", ("a",), "https://worker.example/")
    links = {"a": Link(1, 5), "b": Link(2, 7)}
    return Subscription("s", "/v1/stream/", "http://here", 1000, config, {"a"}, links, 3, wake)


@generated
@given(events)
def test_events_are_read_as_they_were_written(written: list[Event]) -> None:
    assert decode_events(encode_events(tuple(written))) == written


def test_the_first_event_states_everything() -> None:
    assert fold(None, Stated(subscription())) == subscription()


def test_a_statement_replaces_what_was_before() -> None:
    woken = subscription(Wake("w", {}))

    assert fold(subscription(), Stated(woken)) is woken


def test_a_link_of_a_stream_that_is_linked_keeps_its_position() -> None:
    """§6.4: adding an already-linked stream is idempotent."""
    after = fold(subscription(), Linked({"b": Link(9, 9), "c": Link(3, 0)}))

    assert after.explicit == {"a", "b", "c"}
    assert after.links == {"a": Link(1, 5), "b": Link(2, 7), "c": Link(3, 0)}


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_removed_link_keeps_its_position_if_the_pattern_makes_it_too(*, forgotten: bool) -> None:
    """§6.4: a matching glob link remains active."""
    after = fold(subscription(), Unlinked("a", forgotten))

    assert (after.explicit, "a" in after.links) == (set(), not forgotten)


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert fold(subscription(), Unlinked("c", forgotten=True)) == subscription()


def test_a_wake_begins_a_generation() -> None:
    """§7.3: it increments for every wake."""
    after = fold(subscription(), Woken(4, Wake("w", {"a": Link(1, 9)})))

    assert (after.generation, after.wake) == (4, Wake("w", {"a": Link(1, 9)}))


def test_a_worker_that_holds_the_lease_may_have_processed_some_of_the_work() -> None:
    """§7.2: the ack endpoint doubles as heartbeat."""
    after = fold(subscription(Wake("w", {})), Held("w1", 2000, {"a": Link(1, 6)}))

    assert after.wake == Wake("w", {}, "w1", 2000)
    assert after.links["a"] == Link(1, 6)


def test_nobody_holds_what_is_over() -> None:
    assert fold(subscription(), Held("w1", 2000)).wake is None


def test_a_wake_that_is_over_leaves_its_acks() -> None:
    after = fold(subscription(Wake("w", {})), Ended({"b": Link(2, 8)}))

    assert (after.wake, after.generation, after.links["b"]) == (None, 3, Link(2, 8))


def test_failures_are_counted_until_a_delivery_succeeds() -> None:
    """§7.1: retry metadata, `next_attempt_at` included, is kept."""
    failed = fold(subscription(), Failed(2, 9000))
    assert (failed.failures, failed.next_attempt_at) == (2, 9000)

    delivered = fold(failed, Delivered())
    assert (delivered.failures, delivered.next_attempt_at) == (0, 0)


def test_a_stream_that_is_new_to_a_subscription_has_nothing_processed() -> None:
    """§6.2: streams discovered later are linked before the append."""
    assert subscription().acked("c", 1) == BEFORE_FIRST
    assert subscription().acked("a", 2) == BEFORE_FIRST
    assert subscription().acked("a", 1) == 5


@pytest.mark.parametrize(
    "path, incarnation, tail, news",
    [("a", 1, 5, False), ("a", 1, 6, True), ("a", 2, 1, True), ("c", 1, 0, False), ("c", 1, 1, True)],
)
def test_news_is_what_lies_beyond_the_last_ack(path: str, incarnation: int, tail: int, *, news: bool) -> None:
    """§7: a tail offset greater than its `acked_offset`."""
    assert subscription().has_news(path, incarnation, tail) is news


def test_a_worker_is_told_where_a_stream_begins() -> None:
    assert format_position(BEFORE_FIRST) == "-1"
    assert format_position(5).endswith("5")


def test_only_a_pull_wake_is_pulled() -> None:
    assert not subscription().pull
