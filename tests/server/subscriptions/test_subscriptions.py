"""Subscriptions as resources: created, re-confirmed, read, deleted; their streams (§6.1 to §6.4)."""

import re
from typing import Any

import pytest

from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import RunningServer
from tests.kit.subscriber import Api, document, fresh, offset, refusal

URL = "https://worker.example/hooks"
CREATED_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def webhook(**config: object) -> dict[str, object]:
    return {"type": "webhook", "webhook": {"url": URL}, **config}


def test_a_subscription_is_created_and_then_confirmed(api: Api) -> None:
    """§6.2: 201, then 200 with an identical configuration."""
    name, config = fresh(), webhook(pattern="events/*", description="event processor")
    created, confirmed = api.send("PUT", name, config), api.send("PUT", name, config)
    assert (created.status, confirmed.status) == (201, 200)
    assert document(created) == document(confirmed) == api.describe(name)


@pytest.mark.parametrize(
    "same",
    [
        webhook(pattern="/e/*/", streams=["b", "a", "b"], lease_ttl_ms=30_000),
        webhook(pattern="e/*", streams=["/a/", "b"], description=None),
        webhook(pattern="e/*", streams=["a", "b"], wake_stream="not/of/webhooks", unknown=1),
    ],
)
def test_one_configuration_may_be_written_in_many_ways(api: Api, same: dict[str, object]) -> None:
    """§6.2: the hash is one of the normalized configuration."""
    name = fresh()
    api.send("PUT", name, webhook(pattern="e/*", streams=["a", "b"]))
    assert api.send("PUT", name, same).status == 200


@pytest.mark.parametrize(
    "other",
    [
        {"pattern": "e/**"},
        {"streams": ["a"]},
        {"webhook": {"url": "https://worker.example/other"}},
        {"lease_ttl_ms": 30_001},
        {"description": "another"},
        {"type": "pull-wake", "wake_stream": "w"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_configuration_under_the_same_id_is_a_409(api: Api, other: dict[str, object]) -> None:
    """§6.2."""
    name = fresh()
    api.send("PUT", name, webhook(pattern="e/*"))
    assert refusal(api.send("PUT", name, webhook(pattern="e/*") | other)) == (409, "SUBSCRIPTION_ALREADY_EXISTS")
    assert api.describe(name)["pattern"] == "e/*"


def test_a_webhook_subscription_is_described_as_documented(api: Api, subscribed: RunningServer | Mounted) -> None:
    """§6.3, with the signing metadata, and without any secret."""
    name, path = fresh(), fresh("events")
    api.create(path, b"12345")
    api.send("PUT", name, webhook(streams=[path], description="event processor"))
    described = api.describe(name)
    assert CREATED_AT.fullmatch(described.pop("created_at"))
    kid = described["webhook"]["signing"].pop("kid")
    assert described == {
        "id": name,
        "subscription_id": name,
        "type": "webhook",
        "pattern": None,
        "streams": [{"path": path, "link_type": "explicit", "acked_offset": offset(5)}],
        "webhook": {
            "url": URL,
            "signing": {"alg": "ed25519", "jwks_url": f"{subscribed.origin}/v1/stream/__ds/jwks.json"},
        },
        "wake_stream": None,
        "lease_ttl_ms": 30_000,
        "status": "active",
        "description": "event processor",
    }
    assert kid.startswith("ds_")


def test_a_pull_wake_subscription_has_a_wake_stream_and_no_webhook(api: Api) -> None:
    described = api.subscribe_pull(fresh(), wake := fresh("wake"), pattern="none/*", lease_ttl_ms=1000)
    assert (described["type"], described["wake_stream"], described["lease_ttl_ms"]) == ("pull-wake", wake, 1000)
    assert "webhook" not in described


def test_a_deleted_subscription_is_gone_and_its_id_is_free(api: Api) -> None:
    """§6.3."""
    name = fresh()
    api.send("PUT", name, webhook(pattern="e/*"))
    answer = api.send("DELETE", name)
    assert (answer.status, answer.body) == (204, b"")
    assert refusal(api.send("GET", name)) == (404, "SUBSCRIPTION_NOT_FOUND")
    assert api.send("PUT", name, webhook(pattern="other/*")).status == 201


@pytest.mark.parametrize(
    "written", ["with%20space", "caf%C3%A9", "100%25", "a:b", "..%3F", "x" * 200], ids=lambda written: written[:12]
)
def test_an_id_may_be_anything_printable_without_a_slash(api: Api, written: str) -> None:
    assert api.send("PUT", written, webhook(pattern="e/*")).status == 201
    assert api.describe(written)["pattern"] == "e/*"
    assert api.send("DELETE", written).status == 204


# Globs


GLOBS = [
    ("{0}/*", {"{0}/a", "{0}/b"}),
    ("{0}/**", {"{0}", "{0}/a", "{0}/b", "{0}/a/x", "{0}/a/x/y"}),
    ("{0}/*/x", {"{0}/a/x"}),
    ("{0}/**/y", {"{0}/a/x/y"}),
    ("{0}/**/x/**", {"{0}/a/x", "{0}/a/x/y"}),
    ("{0}/a", {"{0}/a"}),
    ("{0}/a*", set()),
]


@pytest.mark.parametrize("pattern, matched", GLOBS, ids=[pattern for pattern, _ in GLOBS])
@pytest.mark.parametrize("streams_first", [True, False], ids=["backfill", "later"])
def test_a_star_is_one_segment_and_two_are_any_number(
    api: Api, pattern: str, matched: set[str], *, streams_first: bool
) -> None:
    """§6.2."""
    name, folder = fresh(), fresh("folder")

    def create_streams() -> None:
        for path in ("", "/a", "/b", "/a/x", "/a/x/y"):
            api.create(folder + path)

    if streams_first:
        create_streams()
    api.send("PUT", name, webhook(pattern=pattern.format(folder)))
    if not streams_first:
        create_streams()
    assert set(api.linked(name)) == {path.format(folder) for path in matched}


def test_streams_that_exist_are_linked_at_their_tail_and_later_ones_from_the_start(api: Api) -> None:
    """§6.2: creation does not replay what is there."""
    name, folder = fresh(), fresh("folder")
    api.create(f"{folder}/old", b"12345")
    api.send("PUT", name, webhook(pattern=f"{folder}/*"))
    api.create(f"{folder}/new", b"123")
    assert api.linked(name) == {f"{folder}/old": ("glob", offset(5)), f"{folder}/new": ("glob", "-1")}


def test_a_pattern_reaches_no_further_than_its_stream_root(api: Api) -> None:
    bucket, name = fresh("bucket"), fresh()
    assert api.wire.request("PUT", f"/ds/{bucket}").status == 201
    api.wire.create(f"/ds/{bucket}/news", body=b"1")
    folder = fresh("folder")
    api.create(folder)
    api.send("PUT", name, webhook(pattern="**"))
    assert folder in api.linked(name)
    assert not [path for path in api.linked(name) if "news" in path or bucket in path]


# Explicit links


def link(api: Api, name: str, *paths: str) -> None:
    answer = api.send("POST", f"{name}/streams", {"streams": paths})
    assert (answer.status, answer.body) == (204, b"")


def test_links_are_added_at_the_tail_and_adding_them_again_changes_nothing(api: Api) -> None:
    """§6.4."""
    name, path = fresh(), fresh("events")
    api.create(path, b"123")
    api.send("PUT", name, webhook(pattern="none/*"))
    link(api, name, path, path)
    api.append(path)
    link(api, name, path)
    assert api.linked(name) == {path: ("explicit", offset(3))}


def test_a_link_may_come_before_its_stream(api: Api) -> None:
    name, path = fresh(), fresh("later")
    api.send("PUT", name, webhook(streams=[path]))
    assert api.linked(name) == {path: ("explicit", "-1")}


def test_an_explicit_link_wins_over_a_glob_which_stays_when_it_goes(api: Api) -> None:
    """§6.1."""
    name, folder = fresh(), fresh("folder")
    api.create(f"{folder}/a", b"123")
    api.send("PUT", name, webhook(pattern=f"{folder}/*", streams=[f"{folder}/a"]))
    assert api.linked(name) == {f"{folder}/a": ("explicit", offset(3))}
    assert api.send("DELETE", f"{name}/streams/{folder}/a").status == 204
    assert api.linked(name) == {f"{folder}/a": ("glob", offset(3))}


@pytest.mark.parametrize(
    "path, written",
    [
        ("a/b/c", "a/b/c"),
        ("a/b/c", "a%2Fb%2Fc"),
        ("100%/x", "100%25/x"),
        ("caf\u00e9 au lait", "caf%C3%A9%20au%20lait"),
        ("streams/callback", "streams/callback"),
        ("what?#", "what%3F%23"),
    ],
)
def test_a_link_is_removed_by_its_encoded_path(api: Api, path: str, written: str) -> None:
    """§6.4: `:path` may contain slashes."""
    name = fresh()
    api.send("PUT", name, webhook(streams=[path, "other"]))
    answer = api.send("DELETE", f"{name}/streams/{written}")
    assert (answer.status, answer.body) == (204, b"")
    assert set(api.linked(name)) == {"other"}


def test_removing_a_link_that_is_not_there_is_no_error(api: Api) -> None:
    """§6.4."""
    name = fresh()
    api.send("PUT", name, webhook(pattern="none/*"))
    assert api.send("DELETE", f"{name}/streams/absent").status == 204


def test_links_are_no_part_of_the_configuration(api: Api) -> None:
    name, config = fresh(), webhook(streams=["a"])
    api.send("PUT", name, config)
    link(api, name, "b")
    api.send("DELETE", f"{name}/streams/a")
    assert api.send("PUT", name, config).status == 200
    assert set(api.linked(name)) == {"b"}


# Keys


def test_the_key_set_is_published_as_documented(api: Api) -> None:
    """§6.5."""
    answer = api.wire.get("/v1/stream/__ds/jwks.json")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/jwk-set+json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    answer.headers["content-type"] = "application/json"
    (key,) = document(answer)["keys"]
    assert {name: key[name] for name in ("kty", "crv", "use", "alg")} == {
        "kty": "OKP",
        "crv": "Ed25519",
        "use": "sig",
        "alg": "EdDSA",
    }
    assert set(key) == {"kty", "crv", "use", "alg", "kid", "x"}


def test_the_key_that_a_subscription_names_is_in_the_set(api: Api) -> None:
    name = fresh()
    api.send("PUT", name, webhook(pattern="none/*"))
    published: Any = api.wire.get("/v1/stream/__ds/jwks.json").body.decode()
    assert api.describe(name)["webhook"]["signing"]["kid"] in published


def listed(api: Api, query: str = "") -> list[Any]:
    answer = api.wire.request("GET", f"{api.root}/__ds/subscriptions{query}")
    found: list[Any] = document(answer)["subscriptions"]
    return found


def test_subscriptions_of_a_root_are_listed_in_order(api: Api) -> None:
    """Ours: what a page shows."""
    first, second = fresh("listed-a"), fresh("listed-b")
    api.send("PUT", second, webhook(pattern="listed/*"))
    api.send("PUT", first, webhook(streams=["x"]))
    ids = [each["subscription_id"] for each in listed(api)]
    assert ids.index(first) < ids.index(second)
    assert URL not in str(listed(api))


def test_those_that_a_stream_wakes_are_listed_with_how_far_they_came(api: Api) -> None:
    """Ours: what a page shows of one stream."""
    name = fresh()
    api.send("PUT", name, webhook(pattern="waking/*"))
    told = {each["subscription_id"]: each for each in listed(api, "?stream=waking/one")}[name]
    assert (told["pattern"], told["awake"]) == ("waking/*", False)
    assert name not in {each["subscription_id"] for each in listed(api, "?stream=sleeping/one")}


def test_subscriptions_of_a_stream_whose_name_is_not_utf8_are_refused(api: Api) -> None:
    answer = api.wire.request("GET", f"{api.root}/__ds/subscriptions?stream=%ff")
    assert refusal(answer)[0] == 400
    assert "stream must be UTF-8" in document(answer)["error"]["message"]
