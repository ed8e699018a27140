"""Actions: every resource and every method has its rule, and what has none is closed."""

import pytest

from everbrook.protocol import REGISTRY
from everbrook.protocol.errors import InvalidPath, NotFound
from everbrook.server.auth.actions import Action, action_of, find_action
from everbrook.server.auth.scopes import Access, Rule, Verb
from everbrook.server.exchange import Request
from everbrook.server.methods import CONTROL, TABLE
from everbrook.server.resources.subscriptions import SubscriptionResource
from everbrook.server.routes import Resource

METHODS = (b"GET", b"HEAD", b"PUT", b"POST", b"DELETE")
STREAM, BUCKETED = b"/v1/stream/a/b", b"/ds/acme/s"
BASE, BUCKET = b"/v1/stream", b"/ds/acme"
NOT_KNOWN = Verb.ADMIN


def _reading(get: Rule, put: Rule = NOT_KNOWN, post: Rule = NOT_KNOWN, delete: Rule = NOT_KNOWN) -> tuple[Rule, ...]:
    return get, get, put, post, delete


READ, WRITE = _reading(Verb.READ), _reading(Verb.READ, Verb.CREATE, Verb.APPEND, Verb.DELETE)
SNAPSHOT = _reading(Verb.READ, Verb.APPEND, NOT_KNOWN, Verb.DELETE)
RETENTION = _reading(NOT_KNOWN, Verb.DELETE)
LISTED, ADMIN = _reading(Access.LISTED), _reading(Verb.ADMIN)
KEYS, OWN_TOKEN = _reading(Access.OPEN), _reading(NOT_KNOWN, post=Access.OPEN)

# Each URL: what it needs by each of METHODS, on which path.
NEEDS: dict[Resource, list[tuple[bytes, tuple[Rule, ...], bytes]]] = {
    Resource.STREAM: [(STREAM, WRITE, STREAM), (BUCKETED, WRITE, BUCKETED), (REGISTRY, WRITE, BASE)],
    Resource.SNAPSHOT: [
        (b"/v1/stream/a/b/__ds/snapshot", READ, STREAM),
        (b"/ds/acme/s/snapshot", READ, BUCKETED),
        (REGISTRY + b"/__ds/snapshot", READ, BASE),
    ],
    Resource.SNAPSHOT_AT: [
        (b"/v1/stream/a/b/__ds/snapshot/7", SNAPSHOT, STREAM),
        (b"/ds/acme/s/snapshot/7", SNAPSHOT, BUCKETED),
    ],
    Resource.BOOTSTRAP: [
        (b"/v1/stream/a/b/__ds/bootstrap", READ, STREAM),
        (b"/ds/acme/s/bootstrap", READ, BUCKETED),
        (REGISTRY + b"/__ds/bootstrap", READ, BASE),
    ],
    Resource.RETENTION: [
        (b"/v1/stream/a/b/__ds/retention/7", RETENTION, STREAM),
        (b"/ds/acme/s/retention/7", RETENTION, BUCKETED),
    ],
    Resource.PRODUCERS: [
        (b"/v1/stream/a/b/__ds/producers", READ, STREAM),
        (b"/ds/acme/s/producers", READ, BUCKETED),
    ],
    Resource.LISTING: [
        (b"/v1/stream/__ds/streams", LISTED, BASE),
        (b"/ds/acme/streams", LISTED, BUCKET),
        (b"/ds/acme/__ds/streams", LISTED, BUCKET),
    ],
    Resource.JWKS: [(b"/v1/stream/__ds/jwks.json", KEYS, BASE), (b"/ds/acme/__ds/jwks.json", KEYS, BUCKET)],
    Resource.SUBSCRIPTIONS: [(b"/v1/stream/__ds/subscriptions", ADMIN, BASE)],
    Resource.SUBSCRIPTION: [
        (b"/v1/stream/__ds/subscriptions/s", ADMIN, BASE),
        (b"/ds/acme/__ds/subscriptions/s", ADMIN, BUCKET),
    ],
    Resource.LINKS: [(b"/v1/stream/__ds/subscriptions/s/streams", ADMIN, BASE)],
    Resource.LINK: [(b"/v1/stream/__ds/subscriptions/s/streams/a", ADMIN, BASE)],
    Resource.CLAIM: [(b"/ds/acme/__ds/subscriptions/s/claim", ADMIN, BUCKET)],
    Resource.CALLBACK: [(b"/v1/stream/__ds/subscriptions/s/callback", OWN_TOKEN, BASE)],
    Resource.ACK: [(b"/v1/stream/__ds/subscriptions/s/ack", OWN_TOKEN, BASE)],
    Resource.RELEASE: [(b"/ds/acme/__ds/subscriptions/s/release", OWN_TOKEN, BUCKET)],
    Resource.BUCKET: [(b"/ds/acme", _reading(Verb.READ, Verb.ADMIN, NOT_KNOWN, Verb.ADMIN), BUCKET)],
    Resource.BUCKETS: [(b"/ds", LISTED, b"/ds")],
    Resource.QUOTA: [],
}


@pytest.mark.parametrize("resource", list(Resource), ids=str)
def test_every_resource_has_a_rule_and_is_tested(resource: Resource) -> None:
    assert resource in TABLE, "say in TABLE what its methods need"
    assert resource in NEEDS, "say here what its methods need"


@pytest.mark.parametrize(
    "method, path, needed",
    [
        (method, path, Action(rule, granted))
        for urls in NEEDS.values()
        for path, rules, granted in urls
        for method, rule in zip(METHODS, rules, strict=True)
    ],
)
def test_every_method_of_every_url_needs_what_it_should(method: bytes, path: bytes, needed: Action) -> None:
    found = find_action(method, path)
    assert found.rule is needed.rule
    assert found.path == needed.path


@pytest.mark.parametrize("resource", sorted(CONTROL, key=str), ids=str)
def test_every_method_of_a_subscription_has_its_handler(resource: Resource) -> None:
    assert all(hasattr(SubscriptionResource, row.handler) for row in TABLE[resource].values())


def test_a_quota_is_moved_by_who_administers_all_buckets() -> None:
    assert find_action(b"GET", b"/ds/acme/__ds/quota") == Action(Verb.READ, BUCKET)
    for method in (b"PUT", b"DELETE", b"POST"):
        assert find_action(method, b"/ds/acme/__ds/quota") == Action(Verb.ADMIN, b"/ds")


@pytest.mark.parametrize("method", [b"PATCH", b"TRACE", b"CONNECT", b"PROPFIND", b"get", b""])
def test_a_method_that_nobody_knows_needs_admin(method: bytes) -> None:
    assert find_action(method, STREAM) == Action(Verb.ADMIN, STREAM)


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz", b"/ui", b"/ui/app.js"])
def test_probes_and_pages_are_open(path: bytes) -> None:
    assert find_action(b"GET", path).rule is Access.OPEN


@pytest.mark.parametrize("path", [STREAM, b"/ds/acme", b"/v1/stream/__ds/streams"])
def test_what_a_browser_asks_beforehand_is_open(path: bytes) -> None:
    assert find_action(b"OPTIONS", path).rule is Access.OPEN


def test_metrics_and_the_whole_server_need_admin() -> None:
    assert find_action(b"GET", b"/metrics") == Action(Verb.ADMIN, b"/metrics")
    assert find_action(b"POST", b"/admin/backups") == Action(Verb.ADMIN, b"")


@pytest.mark.parametrize("path", [b"/", b"/uix", b"/healthz/", b"/metrics/x", b"/v1", b"/v1/stream", b"/V1/stream/a"])
def test_what_leads_nowhere_is_not_found(path: bytes) -> None:
    with pytest.raises(NotFound):
        find_action(b"GET", path)


@pytest.mark.parametrize("path", [b"/v1/stream/a/../b", b"/v1/stream/a//b", b"/v1/stream/%00", b"/ds/acme/%2e%2e"])
def test_a_path_that_names_nothing_is_no_action(path: bytes) -> None:
    with pytest.raises(InvalidPath):
        find_action(b"GET", path)


@pytest.mark.parametrize(
    "path",
    [b"/v1/stream/a/%62", b"/v1/stream/%61/b", b"/v1/stream/a%2fb", b"/v1/stream/a%2Fb", b"/v1/stream/%61%2f%62"],
)
def test_every_spelling_of_a_path_is_the_same_action(path: bytes) -> None:
    assert find_action(b"GET", path) == Action(Verb.READ, STREAM)


def test_an_action_is_remembered_by_method_and_path() -> None:
    assert action_of(Request(b"PUT", STREAM, b"", {}, b"")) == Action(Verb.CREATE, STREAM)
    assert action_of(Request(b"GET", STREAM, b"", {}, b"")) == Action(Verb.READ, STREAM)
