"""The URLs that subscriptions tell: by the public URL, the host that was asked, the mount, the bucket (§6.3, §7.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everbrook.server.asgi import AsgiApplication, create_app
from everbrook.server.assembly import open_storage
from everbrook.settings import StorageMode
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import configured
from tests.kit.servers import Start, StartEither
from tests.kit.subscriber import Api, Hooks, document, fresh, offset, refusal


def urls(api: Api, hooks: Hooks, **headers: str) -> tuple[str, str]:
    """Create a subscription and wake it. Gives the URLs of the keys and of the callback."""
    name, path = fresh(), fresh("a")
    api.create(path)
    config = {"type": "webhook", "webhook": {"url": hooks.url}, "streams": [path]}
    described = document(api.send("PUT", name, config, **headers))
    api.append(path)
    callback_url: str = hooks.next().wake["callback_url"]
    return described["webhook"]["signing"]["jwks_url"], callback_url.replace(name, "NAME")


def test_the_public_url_is_what_others_are_told(start_either: StartEither, hooks: Hooks) -> None:
    server = start_either(webhooks__allow_loopback_http=True, server__public_url="https://streams.example/ds")
    with server.connect() as wire:
        assert urls(Api(wire), hooks, host="inside:4437") == (
            "https://streams.example/ds/v1/stream/__ds/jwks.json",
            "https://streams.example/ds/v1/stream/__ds/subscriptions/NAME/callback",
        )


def test_a_new_public_url_holds_for_old_subscriptions_too(start: Start, tmp_path: Path) -> None:
    name, config = fresh(), {"type": "webhook", "webhook": {"url": "https://worker.example/"}, "streams": ["a"]}
    stored = configured(storage__mode=StorageMode.FILE_FAST, storage__data_dir=str(tmp_path))
    old = start(open_storage(stored), server__public_url="https://old.example")
    with old.connect() as wire:
        assert Api(wire).send("PUT", name, config).status == 201
    old.stop()
    with start(open_storage(stored), server__public_url="https://new.example").connect() as wire:
        signing = Api(wire).describe(name)["webhook"]["signing"]
    assert signing["jwks_url"] == "https://new.example/v1/stream/__ds/jwks.json"


def test_without_one_it_is_the_host_that_the_subscriber_asked(start_either: StartEither, hooks: Hooks) -> None:
    with start_either(webhooks__allow_loopback_http=True).connect() as wire:
        assert urls(Api(wire), hooks, host="streams.example:8080") == (
            "http://streams.example:8080/v1/stream/__ds/jwks.json",
            "http://streams.example:8080/v1/stream/__ds/subscriptions/NAME/callback",
        )


def test_an_id_is_encoded_in_its_callback_url(api: Api, hooks: Hooks) -> None:
    path = fresh("a")
    api.create(path)
    api.subscribe("a%20%25%3F", hooks.url, streams=[path])
    api.append(path)
    wake = hooks.next().wake
    assert wake["subscription_id"] == "a %?"
    assert wake["callback_url"].endswith("/__ds/subscriptions/a%20%25%3F/callback")
    assert called_back(wake).status_code == 200
    api.send("DELETE", "a%20%25%3F")


def called_back(wake: dict[str, Any]) -> httpx2.Response:
    """Be done with a wake, by nothing but what it says."""
    acks = [{"stream": stream["path"], "offset": stream["tail_offset"]} for stream in wake["streams"]]
    said = {"wake_id": wake["wake_id"], "generation": wake["generation"], "acks": acks, "done": True}
    return httpx2.post(wake["callback_url"], json=said, headers={"Authorization": f"Bearer {wake['callback_token']}"})


@pytest.fixture
def streams() -> AsgiApplication:
    return create_app(configured(webhooks__allow_loopback_http=True))


def test_a_root_path_is_part_of_every_url(streams: AsgiApplication, hooks: Hooks) -> None:
    """A proxy in front has taken it away."""
    with Mounted(streams, streams, root_path="/api") as server, server.connect() as wire:
        control = f"{server.origin}/api/v1/stream/__ds"
        assert urls(Api(wire), hooks) == (f"{control}/jwks.json", f"{control}/subscriptions/NAME/callback")


@pytest.fixture
def mounted(streams: AsgiApplication) -> Iterator[Mounted]:
    """The application below `/api`."""
    outer = Starlette(routes=[Mount("/api", streams)], lifespan=streams.lifespan)
    with Mounted(streams, outer) as server:
        yield server


def test_a_mount_is_part_of_every_url(mounted: Mounted, hooks: Hooks) -> None:
    control = f"{mounted.origin}/api/v1/stream/__ds"
    with mounted.connect() as wire:
        found = urls(Api(wire, "/api/v1/stream"), hooks)
    assert found == (f"{control}/jwks.json", f"{control}/subscriptions/NAME/callback")


def test_what_is_told_below_a_mount_leads_back_there(mounted: Mounted, hooks: Hooks) -> None:
    name, path = fresh(), fresh("a")
    with mounted.connect() as wire:
        api = Api(wire, "/api/v1/stream")
        api.create(path)
        jwks_url = api.subscribe(name, hooks.url, streams=[path])["webhook"]["signing"]["jwks_url"]
        assert httpx2.get(jwks_url).json()["keys"]
        api.append(path)
        assert called_back(hooks.next().wake).json() == {"ok": True, "next_wake": False}
        assert api.acked(name, path) == offset(4)


# Buckets


@pytest.fixture
def bucket(api: Api) -> Api:
    """Requests below the stream root of a bucket."""
    root = f"/ds/{fresh('bucket')}"
    assert api.wire.request("PUT", root).status == 201
    return Api(api.wire, root)


def test_a_bucket_has_subscriptions_of_its_own(api: Api, bucket: Api, hooks: Hooks) -> None:
    name = fresh()
    bucket.create("news")
    described = bucket.subscribe(name, hooks.url, pattern="*")
    assert urlsplit(described["webhook"]["signing"]["jwks_url"]).path == f"{bucket.root}/__ds/jwks.json"
    assert refusal(api.send("GET", name)) == (404, "SUBSCRIPTION_NOT_FOUND")
    bucket.append("news")
    wake = hooks.next().wake
    assert [stream["path"] for stream in wake["streams"]] == ["news"]
    assert urlsplit(wake["callback_url"]).path == f"{bucket.root}/__ds/subscriptions/{name}/callback"
    assert called_back(wake).status_code == 200
    assert bucket.acked(name, "news") == offset(4)


def test_streams_of_another_root_wake_nobody_in_a_bucket(api: Api, bucket: Api, hooks: Hooks) -> None:
    name = fresh()
    bucket.subscribe(name, hooks.url, pattern="**")
    api.create(fresh("elsewhere"), b"news")
    assert hooks.quiet_for(0.1)


def test_pull_wakes_stay_in_their_bucket(bucket: Api) -> None:
    name = fresh()
    bucket.create("jobs")
    bucket.subscribe_pull(name, "wake", streams=["jobs"])
    bucket.append("jobs")
    claimed = document(bucket.claim(name))
    acks = [{"stream": "jobs", "offset": offset(4)}]
    assert bucket.report("ack", name, claimed, acks=acks, done=True).status == 200
    assert [event["stream"] for event in bucket.events("wake")] == ["jobs"]


@pytest.mark.parametrize("path", ["jwks.json", "subscriptions/x"])
def test_a_bucket_that_is_not_there_has_no_subscriptions(api: Api, path: str) -> None:
    answer = api.wire.get(f"/ds/{fresh('missing')}/__ds/{path}")
    assert refusal(answer) == (404, "BUCKET_NOT_FOUND")


def test_the_token_of_a_bucket_is_not_one_of_the_same_id_elsewhere(api: Api, bucket: Api, hooks: Hooks) -> None:
    name, path = fresh(), fresh("a")
    for each in (api, bucket):
        each.create(path)
        each.subscribe(name, hooks.url, streams=[path])
    bucket.append(path)
    wake = hooks.next().wake
    assert refusal(api.report("callback", name, wake)) == (401, "TOKEN_INVALID")


def test_the_subscriptions_of_a_bucket_go_with_it(bucket: Api, hooks: Hooks) -> None:
    name = fresh()
    bucket.subscribe(name, hooks.url, pattern="*")
    assert bucket.wire.request("DELETE", bucket.root).status == 204
    assert bucket.wire.request("PUT", bucket.root).status == 201
    assert refusal(bucket.send("GET", name)) == (404, "SUBSCRIPTION_NOT_FOUND")
