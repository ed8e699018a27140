"""What a durable server knew of subscriptions, the next one knows, however the first one ended (§6.5, §7.1, §7.3)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from everbrook.client import Jwks, Receiver
from tests.kit.server_process import ServerProcess, serving
from tests.kit.server_thread import eventually
from tests.kit.subscriber import DONE, Api, Hook, Hooks, document, offset, refusal
from tests.kit.wire import Answer

MODES = ["acid", "file-fast", "file-durable"]
JWKS = "/v1/stream/__ds/jwks.json"


class Before(Struct, frozen=True):
    """What the first server said, before it was killed."""

    keys: bytes
    described: Any
    claimed: dict[str, Any]
    stale: dict[str, Any]
    taken: Hook
    refused: Hook


class Restarted(Struct, frozen=True):
    """The second server, what the first one said, and the receivers of both."""

    api: Api
    server: ServerProcess
    before: Before
    taken: Hooks
    refused: Hooks


def pull(api: Api, name: str, path: str) -> dict[str, Any]:
    """Subscribe to a new stream with eight bytes, of which four are acked by a worker that holds the lease."""
    api.create(path)
    api.subscribe_pull(name, f"wake-{name}", streams=[path])
    api.append(path, b"12345678")
    claimed: dict[str, Any] = document(api.claim(name))
    assert api.report("ack", name, claimed, acks=[{"stream": path, "offset": offset(4)}]).status == 200
    return claimed


def webhook(api: Api, hooks: Hooks, name: str, path: str) -> Hook:
    """Subscribe to a new stream with news, and wait for the webhook."""
    api.create(path)
    api.subscribe(name, hooks.url, streams=[path])
    api.append(path)
    return hooks.next()


def prepare(api: Api, taken: Hooks, refused: Hooks) -> Before:
    """Let the first server do one of everything."""
    stale = pull(api, "released", "jobs/released")
    assert api.report("release", "released", stale).status == 204
    claimed = pull(api, "held", "jobs/held")
    api.subscribe("deleted", taken.url, pattern="jobs/*")
    assert api.send("DELETE", "deleted").status == 204
    hook = webhook(api, taken, "taken", "events/taken")
    refused.respond = lambda _hook: (503, b"")
    failed = webhook(api, refused, "refused", "events/refused")
    assert eventually(lambda: api.describe("refused")["status"] == "failed")
    refused.respond = lambda _hook: DONE
    return Before(api.wire.get(JWKS).body, api.describe("released"), claimed, stale, hook, failed)


@pytest.fixture(scope="module", params=MODES)
def restarted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    """Kill a server that was in the middle of everything, and start another on its store."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = {"DS_STORAGE__MODE": request.param, "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true"}
    with ExitStack() as stack:
        taken, refused = stack.enter_context(Hooks()), stack.enter_context(Hooks())
        first = stack.enter_context(serving(folder, **settings))
        with first.connect() as wire:
            before = prepare(Api(wire), taken, refused)
        first.process.kill()
        first.process.wait()
        second = stack.enter_context(serving(folder, "--port", str(first.address[1]), **settings))
        api = Api(stack.enter_context(second.connect()))
        yield Restarted(api, second, before, taken, refused)


def test_the_keys_are_the_same(restarted: Restarted) -> None:
    """§6.5: signing keys survive, and what was signed before verifies."""
    assert restarted.api.wire.get(JWKS).body == restarted.before.keys
    host, port = restarted.server.address
    hook = restarted.before.taken
    Receiver(Jwks(f"http://{host}:{port}{JWKS}")).check(hook.body, hook.headers["webhook-signature"])


def test_a_subscription_is_the_same_with_its_cursors(restarted: Restarted) -> None:
    assert restarted.api.describe("released") == restarted.before.described
    assert restarted.api.acked("released", "jobs/released") == offset(4)


def test_a_deleted_subscription_stays_deleted(restarted: Restarted) -> None:
    assert refusal(restarted.api.send("GET", "deleted")) == (404, "SUBSCRIPTION_NOT_FOUND")


def test_a_lease_is_still_held_and_its_token_still_good(restarted: Restarted) -> None:
    """§7.3. The worker never learns that its server was killed."""
    api, claimed = restarted.api, restarted.before.claimed
    answer = api.claim("held", "worker-2")
    assert refusal(answer) == (409, "ALREADY_CLAIMED")
    assert document(answer)["error"]["current_holder"] == "worker-1"
    acks = [{"stream": "jobs/held", "offset": offset(8)}]
    assert document(api.report("ack", "held", claimed, acks=acks, done=True)) == {"ok": True, "next_wake": False}


def test_what_was_fenced_stays_fenced_and_generations_go_on(restarted: Restarted) -> None:
    api, stale = restarted.api, restarted.before.stale
    assert refusal(api.report("ack", "released", stale)) == (409, "FENCED")
    assert api.events("wake-released")[-1]["generation"] == 2
    assert document(api.claim("released"))["generation"] == 2


def test_a_webhook_that_was_taken_may_be_called_back_for(restarted: Restarted) -> None:
    """It is sent again, as nobody knows whether it arrived: the same wake, once more."""
    first, again = restarted.before.taken.wake, restarted.taken.next().wake
    assert (again["wake_id"], again["generation"]) == (first["wake_id"], 1)
    acks = [{"stream": "events/taken", "offset": offset(4)}]
    answer: Answer = restarted.api.report("callback", "taken", first, acks=acks, done=True)
    assert document(answer) == {"ok": True, "next_wake": False}


def test_a_delivery_that_failed_is_tried_again_at_its_time(restarted: Restarted) -> None:
    """§7.1: the retry schedule survives."""
    first, again = restarted.before.refused, restarted.refused.next()
    assert again.wake["wake_id"] == first.wake["wake_id"]
    assert again.at - first.at > 0.75
    assert eventually(lambda: restarted.api.describe("refused")["status"] == "active")
    assert restarted.api.acked("refused", "events/refused") == offset(4)


def slowly(_hook: Hook) -> tuple[int, bytes]:
    time.sleep(0.3)
    return DONE


def test_news_that_nobody_was_told_of_wake_after_the_start(tmp_path: Path) -> None:
    """§7: an append that was acknowledged wakes, even if the server dies before it could tell."""
    settings = {"DS_STORAGE__MODE": "acid", "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true"}
    with Hooks() as hooks:
        with serving(tmp_path, **settings) as first, first.connect() as wire:
            api = Api(wire)
            api.create("events/a")
            api.subscribe("sub", hooks.url, pattern="events/*")
            hooks.respond = slowly
            for _ in range(20):
                api.append("events/a")
            first.process.kill()
        hooks.respond = lambda _hook: DONE
        with serving(tmp_path, **settings) as second, second.connect() as wire:
            api = Api(wire)
            assert eventually(lambda: api.acked("sub", "events/a") == offset(80))
