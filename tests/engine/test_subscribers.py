"""Who is woken by which stream: clients choose the names, and what is remembered of them is bounded."""

from everbrook.engine.subscribers import Subscribers
from everbrook.engine.subscription import Active
from everbrook.engine.usage import Held
from everbrook.protocol.subscriptions import Config, Subscription

ROOT = "/ds/agents/"


def active(subscription_id: str, root: str = ROOT) -> Active:
    config = Config("pull-wake", "**", (), None, "told", 1000, None)
    return Active(subscription_id.encode(), Subscription(subscription_id, root, "http://here", 0, config, set(), {}))


class CountingSubscribers(Subscribers):
    """Counts how often a name is looked for rather than remembered."""

    looked_for = 0

    def find(self, name: bytes) -> tuple[Active, ...]:
        self.looked_for += 1
        return super().find(name)


def test_names_are_remembered_up_to_so_many_bytes() -> None:
    subscribers = CountingSubscribers(1000, max_remembered_bytes=40)
    for name in (b"/ds/agents/a", b"/ds/agents/b", b"/ds/agents/a", b"/ds/agents/b"):
        subscribers.of(name)
    assert subscribers.looked_for == 2
    subscribers.of(b"/ds/agents/a-long-one")
    subscribers.of(b"/ds/agents/a")
    assert subscribers.looked_for == 4


def test_a_root_without_subscriptions_leaves_nothing_behind() -> None:
    subscribers, one, other = Subscribers(1000, 1000), active("one"), active("other")
    for each in (one, other):
        subscribers.add(each)
    subscribers.remove(one)
    assert subscribers.find(b"/ds/agents/x") == (other,)
    assert subscribers.told_in(b"/ds/agents/told") == (other,)
    subscribers.remove(other)
    assert (subscribers.roots, subscribers.held(b"/ds/agents/")) == (0, Held())
    assert subscribers.find(b"/ds/agents/x") == ()
