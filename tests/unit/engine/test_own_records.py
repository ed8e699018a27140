"""Limits of tenants do not hold for the server's own records, which have bounds of their own."""

import logging

import pytest

from everbrook.engine.limits import Limits
from everbrook.engine.quotas import Quota
from everbrook.engine.tuning import DEFAULT_TUNING
from everbrook.engine.usage import EVERYTHING
from everbrook.protocol import REGISTRY, STREAM_ROOT
from everbrook.protocol.errors import StoreFull, StreamFull, TooManySubscriptions
from everbrook.server.resources.registry import Registry
from tests.unit.engine.rig import Rig, change_limits, held
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, SubscribingRig, pulled_rig

RETRY_MS = DEFAULT_TUNING.subscriptions.missing_stream_ms
SMALL = Limits(max_stream_bytes=300, max_bucket_bytes=300)


def work(rig: SubscribingRig) -> None:
    """Let there be news, and do what is to be done."""
    rig.add("events/a")
    rig.settle()
    rig.claim()
    rig.report("s", ("events/a", rig.tail("events/a")), done=True)
    rig.settle()


def blocked_rig() -> SubscribingRig:
    """A subscription whose wake stream has room for two wakes, and that has news for the third time."""
    rig = pulled_rig(Limits(max_wake_stream_bytes=220))
    work(rig)
    work(rig)
    rig.add("events/a")
    rig.settle()
    return rig


def test_wakes_go_on_beyond_the_limit_of_a_stream() -> None:
    rig = pulled_rig(SMALL)
    for _ in range(20):
        work(rig)
    assert len(rig.events()) == 20
    with pytest.raises(StreamFull):
        rig.append(b"/v1/stream/wake", b"1", content_type=b"application/json")


def test_webhooks_go_on_beyond_the_limit_of_a_stream() -> None:
    rig = SubscribingRig(limits=SMALL)
    rig.put("events/a")
    rig.hook()
    for _ in range(20):
        rig.add("events/a")
        rig.settle()
        rig.answer(done=True)
        rig.settle()
    assert [sent.generation for sent in rig.sent] == list(range(1, 21))


def test_a_full_store_stops_neither_acks_nor_leases() -> None:
    rig = pulled_rig(Limits(max_total_bytes=1500))
    rig.put("other", b"x" * (1500 - held(rig.engine, EVERYTHING).size - 200))
    rig.add("events/a", b"x" * 150)
    rig.settle()
    with pytest.raises(StoreFull):
        rig.add("events/a", b"x" * 300)
    rig.claim()
    rig.pass_time(2 * LEASE_MS)
    rig.claim()
    rig.report("s", ("events/a", 150), done=True)
    assert rig.found().acked("events/a", rig.kept_incarnation("events/a")) == 150


def test_a_full_store_takes_no_subscription() -> None:
    rig = SubscribingRig(limits=Limits(max_total_bytes=100))
    rig.put("a", b"x" * 90)
    with pytest.raises(StoreFull):
        rig.hook()


def test_a_full_store_takes_a_quota() -> None:
    rig = Rig(Limits(max_total_bytes=10))
    rig.create_bucket(b"acme")
    rig.create(b"/ds/acme/a", b"1234567890")
    for number in range(3):
        rig.engine.buckets.set_quota(b"acme", Quota(max_bytes=number))
    assert rig.engine.buckets.quota(b"acme") == Quota(max_bytes=2)


def test_the_registry_grows_beyond_the_limit_of_a_stream() -> None:
    rig = Rig(Limits(max_stream_bytes=100))
    registry = Registry(rig.engine)
    registry.wake()
    rig.scheduler.settle()
    for number in range(5):
        rig.create(b"/v1/stream/%d" % number)
    rig.scheduler.advance(1000)
    assert rig.content(REGISTRY).count(b'"insert"') == 5


def test_a_wake_stream_has_a_bound_of_its_own() -> None:
    rig = blocked_rig()
    assert len(rig.events()) == 2
    trouble = rig.subscriptions.trouble(rig.found())
    assert trouble is not None
    assert trouble.code == "wake_stream_full"
    assert "limits.max_wake_stream_bytes" in trouble.detail
    assert rig.subscriptions.stats().blocked == 1


def test_a_wake_stream_that_is_cut_takes_wakes_again() -> None:
    rig = blocked_rig()
    rig.publish(b"/v1/stream/wake", rig.tail("wake"))
    rig.pass_time(RETRY_MS)
    assert rig.found().generation == 3
    assert rig.subscriptions.trouble(rig.found()) is None
    assert rig.subscriptions.stats().blocked == 0


def test_the_log_tells_once_that_a_bound_is_reached(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "everbrook.engine.subscriptions.wakes"):
        rig = blocked_rig()
        rig.pass_time(3 * RETRY_MS)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the subscription 's' below '/v1/stream/' can't wake a worker"
    ]


def test_subscriptions_have_a_bound_of_their_own() -> None:
    rig = SubscribingRig(limits=Limits(max_subscriptions=1))
    rig.create_bucket(b"acme")
    rig.hook("s")
    rig.hook("s", root=b"/ds/acme/")
    for root in (STREAM_ROOT, b"/ds/acme/"):
        with pytest.raises(TooManySubscriptions):
            rig.hook("t", root=root)
    rig.settle()
    rig.subscriptions.unsubscribe(STREAM_ROOT, "s")
    rig.hook("t")


def test_streams_are_linked_where_there_are_more_subscriptions_than_there_may_be() -> None:
    rig = SubscribingRig()
    rig.hook("s")
    rig.hook("t")
    change_limits(rig.engine, Limits(max_subscriptions=1))
    rig.put("x")
    rig.subscriptions.link(STREAM_ROOT, "s", ("x",))
    assert rig.found("s").explicit == {"x"}
