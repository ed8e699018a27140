"""Which subscriptions a stream wakes: clients choose the names, and the cache of names is bounded."""

from everbrook.engine.subscriptions.index import Active, LinkIndex
from everbrook.engine.usage import Amount
from everbrook.protocol.subscriptions import Config, Subscription

ROOT = "/ds/agents/"


def active(subscription_id: str, root: str = ROOT) -> Active:
    config = Config("pull-wake", "**", (), None, "told", 1000, None)
    return Active(subscription_id.encode(), Subscription(subscription_id, root, "http://here", 0, config, set(), {}))


class CountingIndex(LinkIndex):
    """Counts how often a name is searched because it is not in the cache."""

    searches = 0

    def find(self, name: bytes) -> tuple[Active, ...]:
        self.searches += 1
        return super().find(name)


def test_names_are_cached_up_to_so_many_bytes() -> None:
    links = CountingIndex(1000, max_cached_bytes=40)
    for name in (b"/ds/agents/a", b"/ds/agents/b", b"/ds/agents/a", b"/ds/agents/b"):
        links.of(name)
    assert links.searches == 2
    links.of(b"/ds/agents/a-long-one")
    links.of(b"/ds/agents/a")
    assert links.searches == 4


def test_a_root_without_subscriptions_leaves_nothing_behind() -> None:
    links, one, other = LinkIndex(1000, 1000), active("one"), active("other")
    for each in (one, other):
        links.add(each)
    links.remove(one)
    assert links.find(b"/ds/agents/x") == (other,)
    assert links.with_wake_stream(b"/ds/agents/told") == (other,)
    links.remove(other)
    assert (links.roots, links.held(b"/ds/agents/")) == (0, Amount())
    assert links.find(b"/ds/agents/x") == ()
