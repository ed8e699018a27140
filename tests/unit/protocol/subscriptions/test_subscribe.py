"""Creating, finding and deleting subscriptions, and which streams they are linked to (§6)."""

from unittest.mock import patch

import pytest
from msgspec.structs import replace

from everbrook.protocol import Deleted, Untouched
from everbrook.protocol.errors import InvalidRequest, SubscriptionExists, SubscriptionNotFound
from everbrook.protocol.subscriptions import BEFORE_FIRST, Link
from everbrook.protocol.subscriptions.config import MAX_STREAMS
from everbrook.protocol.subscriptions.rules import matched_by_pattern
from everbrook.protocol.subscriptions.subscription import Changed, Confirmed
from tests.kit.views import NOW
from tests.unit.protocol.subscriptions.decisions import HOOK, PULL, RECORD, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_new_subscription_is_idle_and_of_the_first_generation_to_come(desk: Desk) -> None:
    """§6.2: 201."""
    assert isinstance(desk.subscribe(), Changed)
    assert (desk.it.generation, desk.it.wake, desk.it.created_at, desk.it.config) == (0, None, NOW, HOOK)


def test_what_the_pattern_matches_is_linked_at_its_tail(desk: Desk) -> None:
    """§6.2: eager backfill does not replay historical data."""
    desk.put("events/a", b"12", b"345")
    desk.put("events/b")
    desk.put("events/b/c", b"1")
    desk.put("other", b"1")
    desk.subscribe()

    assert {path: link.acked for path, link in desk.it.links.items()} == {"events/a": 5, "events/b": 0}


def test_what_has_ended_is_not_linked(desk: Desk) -> None:
    desk.put_expired("events/a")
    desk.subscribe()

    assert desk.it.links == {}


def test_the_wake_stream_is_not_linked_by_the_pattern(desk: Desk) -> None:
    desk.put_wake_stream()
    desk.subscribe(replace(PULL, pattern="**"))

    assert desk.it.links == {}
    assert not matched_by_pattern(desk.it, "wake")
    assert matched_by_pattern(desk.it, "awake")


def test_explicit_streams_are_linked_at_their_tails_and_those_to_come_at_their_beginning(desk: Desk) -> None:
    """§6.2: `streams` is additive to `pattern`."""
    desk.put("events/a", b"123")
    desk.put("x", b"12")
    desk.subscribe(replace(HOOK, streams=("x", "y", "events/a")))

    assert desk.it.explicit == {"x", "y", "events/a"}
    assert (desk.acked("x"), desk.acked("events/a"), desk.it.links["y"]) == (2, 3, Link(0, BEFORE_FIRST))


def test_explicit_streams_need_no_pattern(desk: Desk) -> None:
    desk.put("events/a", b"123")
    desk.subscribe(replace(HOOK, pattern=None, streams=("x",)))

    assert set(desk.it.links) == {"x"}
    assert not matched_by_pattern(desk.it, "events/a")


def test_a_subscription_is_found_again_as_it_was_described(desk: Desk) -> None:
    """§6.2: 200."""
    desk.subscribe()
    desk.put("events/a", b"1")
    again = desk.subscribe(replace(HOOK))

    assert isinstance(again, Confirmed)
    assert again.subscription.links == {}


def test_another_configuration_under_the_same_id_is_refused(desk: Desk) -> None:
    """§6.2: 409."""
    desk.subscribe()

    with pytest.raises(SubscriptionExists, match="'s' exists with another configuration"):
        desk.subscribe(replace(HOOK, description="other"))


def test_a_deleted_subscription_is_gone_and_its_id_free(desk: Desk) -> None:
    """§6.3: deletion."""
    desk.subscribe()

    assert desk.unsubscribe() == Deleted()
    assert desk.subscription(RECORD) is None
    assert isinstance(desk.subscribe(PULL), Changed)


def test_what_is_not_there_can_be_neither_deleted_nor_spoken_to(desk: Desk) -> None:
    """§6.3: in-flight requests for a deleted subscription fail."""
    for speak in (desk.unsubscribe, desk.claim, desk.report, desk.compact):
        with pytest.raises(SubscriptionNotFound):
            speak()
    with pytest.raises(SubscriptionNotFound):
        desk.link("x")
    with pytest.raises(SubscriptionNotFound):
        desk.unlink("x")


def test_what_is_not_there_is_not_missed_by_what_time_brings() -> None:
    desk = Desk()

    assert [desk.wake_up("a"), desk.lapse(NOW), desk.deliver()] == [Untouched()] * 3


def test_a_stream_is_linked_at_its_tail(desk: Desk) -> None:
    """§6.4: new explicit streams are linked at their current tail offset."""
    desk.put("x", b"123")
    desk.subscribe()
    desk.link("x", "y")

    assert (desk.it.explicit, desk.acked("x"), desk.it.links["y"]) == ({"x", "y"}, 3, Link(0, BEFORE_FIRST))


def test_a_stream_that_is_linked_stays_where_it_is(desk: Desk) -> None:
    """§6.4: adding an already-linked stream is idempotent."""
    desk.put("x", b"123")
    desk.put("events/a", b"1")
    desk.subscribe(replace(HOOK, streams=("x",)))
    desk.add("x")
    desk.add("events/a")
    desk.link("x", "events/a")

    assert (desk.acked("x"), desk.acked("events/a")) == (3, 1)
    assert desk.link("x", "events/a") == Untouched()


def test_a_stream_that_the_pattern_links_has_its_news_still(desk: Desk) -> None:
    """§6.4: adding an already-linked stream is idempotent. §6.2: it was linked before its first append."""
    desk.subscribe()
    desk.put("events/a", b"123")
    desk.link("events/a")

    assert desk.acked("events/a") == BEFORE_FIRST


def test_a_subscription_names_only_so_many_streams_however_they_are_linked(desk: Desk) -> None:
    streams = tuple(str(number) for number in range(MAX_STREAMS - 1))
    desk.subscribe(replace(HOOK, streams=streams))
    desk.link("0", "z", "z")

    with pytest.raises(InvalidRequest, match="names at most 10000 streams, this would make 10001"):
        desk.link("a")
    assert desk.it.explicit == {*streams, "z"}


def test_the_wake_stream_cannot_be_linked(desk: Desk) -> None:
    """A wake would be news for itself, without end."""
    desk.subscribe(PULL)

    with pytest.raises(InvalidRequest):
        desk.link("x", "wake")
    assert desk.it.links == {}


def test_only_the_explicit_link_is_removed(desk: Desk) -> None:
    """§6.4: a matching glob link remains active."""
    desk.put("events/a", b"1")
    desk.subscribe(replace(HOOK, streams=("events/a",)))
    desk.unlink("events/a")

    assert (desk.it.explicit, desk.acked("events/a")) == (set(), 1)


def test_a_removed_link_is_forgotten(desk: Desk) -> None:
    desk.put("x", b"1")
    desk.subscribe(replace(HOOK, streams=("x",)))
    desk.unlink("x")
    desk.add("x")

    assert desk.it.links == {}
    desk.link("x")
    assert desk.acked("x") == 2


def test_removing_a_link_that_is_not_there_is_no_error(desk: Desk) -> None:
    """§6.4: deleting an absent explicit link is idempotent."""
    desk.put("events/a", b"1")
    desk.subscribe()

    assert [desk.unlink("events/a"), desk.unlink("x")] == [Untouched()] * 2


def test_a_compacted_record_says_the_same_in_fewer_bytes(desk: Desk) -> None:
    desk.put("events/a", b"1")
    desk.subscribe()
    for number in range(1, 9):
        desk.add("events/a")
        desk.wake_up("events/a", wake_id=f"w_{number}")
        desk.deliver(done=True, generation=number)
    before = desk.it
    record = desk.kept[RECORD]
    tail = record.head.tail
    desk.compact()

    assert desk.it == before
    assert record.head.kept.earliest == tail
    desk.add("events/a")
    desk.wake_up("events/a", wake_id="w_9")
    assert desk.it.generation == 9


def test_a_record_that_begins_with_a_compaction_has_nothing_to_let_go_of(desk: Desk) -> None:
    desk.subscribe()
    first = desk.it
    other = Desk()
    other.hold(RECORD, content_type=b"application/json")
    with patch.object(other, "subscription", lambda _name: first):
        other.compact()

    assert other.kept[RECORD].head.kept.earliest == 0


def test_nothing_below_another_root_is_linked(desk: Desk) -> None:
    desk.bucket(b"buck")
    desk.hold(b"/ds/buck/a", b"1")
    desk.put("events/a", b"1")
    desk.subscribe(replace(HOOK, pattern="**"))

    assert set(desk.it.links) == {"events/a"}
