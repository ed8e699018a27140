"""Subscriptions in buckets hear of their bucket alone, and go with it (002 §1)."""

import pytest

from everbrook.engine.roster import record_name
from everbrook.protocol.errors import SubscriptionNotFound
from everbrook.protocol.path import bucket_prefix
from tests.engine.subscribing import SubscribingRig

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
    rig.engine.delete_bucket(b"buck")
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
    rig.engine.delete_bucket(b"buck")
    rig.let_group_arrive()
    rig.crash()
    rig.settle()

    with pytest.raises(SubscriptionNotFound):
        rig.found("t", BUCKET)
    assert rig.storage.scan(b"subscription/ds/", b"", 9) == []
    assert rig.found().id == "s"
