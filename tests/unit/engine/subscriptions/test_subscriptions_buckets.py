"""Subscriptions in buckets hear of their bucket alone, and go with it (002 §1)."""

import pytest

from everbrook.engine.quotas import Quota
from everbrook.engine.subscriptions.index import record_name
from everbrook.protocol import bucket_prefix
from everbrook.protocol.errors import BucketFull, SubscriptionNotFound
from tests.unit.engine.subscriptions.subscribing import SubscribingRig

BUCKET = bucket_prefix(b"buck")


def bucketed() -> SubscribingRig:
    """An engine with a subscription in a bucket, and one beside it."""
    rig = SubscribingRig()
    rig.create_bucket(b"buck")
    rig.hook("s", "*", root=BUCKET)
    rig.hook("s", "*")
    rig.settle()
    return rig


def test_a_subscription_in_a_bucket_hears_of_its_bucket_alone() -> None:
    rig = bucketed()
    rig.put("a", b"1", BUCKET)
    rig.settle()
    rig.put("b", b"1")
    rig.settle()

    assert [(sent.subscription.root, list(sent.wake.tails)) for sent in rig.sent] == [
        ("/ds/buck/", ["a"]),
        ("/v1/stream/", ["b"]),
    ]


def test_news_in_a_bucket_is_found_at_a_start() -> None:
    rig = bucketed()
    rig.put("a", b"1", BUCKET)
    rig.let_group_arrive()
    rig.crash()
    rig.settle()

    assert [sent.subscription.root for sent in rig.sent] == ["/ds/buck/"]


def test_subscriptions_go_with_their_bucket() -> None:
    rig = bucketed()
    rig.engine.buckets.delete(b"buck")
    rig.subscriptions.drop_root(BUCKET)
    rig.settle()

    with pytest.raises(SubscriptionNotFound):
        rig.found(root=BUCKET)
    assert rig.found().id == "s"
    assert rig.storage.load(record_name(BUCKET, "s")) is None


def test_subscriptions_of_a_bucket_that_is_gone_go_at_a_start() -> None:
    rig = bucketed()
    rig.hook("t", "*", root=BUCKET)
    rig.settle()
    rig.engine.buckets.delete(b"buck")
    rig.let_group_arrive()
    rig.crash()
    rig.settle()

    with pytest.raises(SubscriptionNotFound):
        rig.found("t", BUCKET)
    assert rig.storage.scan(b"subscription/ds/", b"", 9) == []
    assert rig.found().id == "s"


# The quota of the bucket


def bounded(**bounds: int) -> SubscribingRig:
    """An engine with a bucket that has a quota."""
    rig = SubscribingRig()
    rig.create_bucket(b"buck")
    rig.settle()
    rig.engine.buckets.set_quota(b"buck", Quota(**bounds))
    rig.settle()
    return rig


def test_a_bucket_has_as_many_subscriptions_as_it_may_have_streams() -> None:
    rig = bounded(max_streams=2)
    for subscription_id in ("a", "b", "a"):
        rig.hook(subscription_id, root=BUCKET)
    with pytest.raises(BucketFull, match="at most 2 subscriptions"):
        rig.hook("c", root=BUCKET)
    rig.subscriptions.unsubscribe(BUCKET, "a")
    rig.hook("c", root=BUCKET)
    rig.hook("c")


def test_the_subscriptions_of_a_bucket_name_no_more_than_it_may_hold() -> None:
    rig = bounded(max_bytes=1000)
    with pytest.raises(BucketFull, match="at most 1000 bytes"):
        rig.hook("s", None, ("x" * 500, "y" * 500), root=BUCKET)
    rig.hook("s", "*", root=BUCKET)
    with pytest.raises(BucketFull):
        rig.subscriptions.link(BUCKET, "s", ("x" * 400, "y" * 400, "z" * 400))
    assert rig.found(root=BUCKET).explicit == set()


def test_what_is_linked_again_takes_no_room() -> None:
    rig = bounded(max_bytes=1000)
    rig.hook("s", "*", root=BUCKET)
    for _ in range(5):
        rig.subscriptions.link(BUCKET, "s", ("x" * 400,))
    rig.subscriptions.unlink(BUCKET, "s", "x" * 400)
    rig.subscriptions.link(BUCKET, "s", ("y" * 400,))


@pytest.mark.parametrize("lost", [False, True])
def test_subscriptions_are_counted_anew_at_a_start(*, lost: bool) -> None:
    rig = bounded(max_streams=1)
    rig.hook("a", root=BUCKET)
    if lost:
        rig.refuse()
    rig.restart()
    if not lost:
        with pytest.raises(BucketFull):
            rig.hook("b", root=BUCKET)
        rig.subscriptions.unsubscribe(BUCKET, "a")
    rig.hook("b", root=BUCKET)


def test_a_full_bucket_still_wakes_its_subscriptions() -> None:
    rig = bounded(max_bytes=300, max_streams=1)
    rig.hook("s", "*", root=BUCKET)
    rig.put("a", b"x" * 300, BUCKET)
    rig.settle()
    assert [list(sent.wake.tails) for sent in rig.sent] == [["a"]]
