"""Pull-wake: wake events, claims, acks as heartbeats, releases, leases (§7.2, §7.3)."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from everbrook.engine import EngineTuning, SubscriptionsTuning
from everbrook.server.tuning import ServerTuning
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import RunningServer, configured, eventually
from tests.kit.servers import Connect, Start
from tests.kit.subscriber import Api, Hooks, document, fresh, offset, refusal
from tests.kit.wire import Answer

Server = RunningServer | Mounted


class Pull:
    """A pull-wake subscription to one stream."""

    def __init__(self, api: Api, **config: object) -> None:
        self.api = api
        self.name, self.path, self.wake_stream = fresh(), fresh("jobs"), fresh("wake")
        api.create(self.path)
        api.subscribe_pull(self.name, self.wake_stream, streams=[self.path], **config)

    def append(self) -> None:
        """Append four bytes, and wait until the wake stream tells."""
        self.api.append(self.path)
        assert eventually(self.events)

    def events(self) -> list[dict[str, Any]]:
        return self.api.events(self.wake_stream)

    def generations(self) -> list[int]:
        return [event["generation"] for event in self.events()]

    def claim(self, worker: str = "worker-1") -> dict[str, Any]:
        answer = self.api.claim(self.name, worker)
        assert answer.status == 200, answer
        claimed: dict[str, Any] = document(answer)
        return claimed

    def ack(self, claimed: dict[str, Any], position: int | None = None, **said: object) -> Answer:
        acks = [] if position is None else [{"stream": self.path, "offset": offset(position)}]
        return self.api.report("ack", self.name, claimed, acks=acks, **said)

    def release(self, claimed: dict[str, Any], **said: object) -> Answer:
        return self.api.report("release", self.name, claimed, **said)

    @property
    def acked(self) -> str:
        return self.api.acked(self.name, self.path)


@pytest.fixture
def pull(api: Api) -> Iterator[Pull]:
    pull = Pull(api)
    yield pull
    api.send("DELETE", pull.name)


@pytest.fixture
def claimed(pull: Pull) -> dict[str, Any]:
    """What the worker of a first wake was given."""
    pull.append()
    return pull.claim()


def test_a_wake_event_is_as_documented(pull: Pull) -> None:
    """§7.2."""
    pull.append()
    (event,) = pull.events()
    assert abs(event.pop("ts") / 1000 - time.time()) < 60
    assert event == {"type": "wake", "subscription_id": pull.name, "stream": pull.path, "generation": 1}


def test_a_wake_event_reaches_whoever_waits_for_it(pull: Pull, subscribed: Server) -> None:
    """§7.2: the wake stream is an ordinary stream."""
    with subscribed.connect() as worker:
        worker.ask("GET", f"/v1/stream/{pull.wake_stream}?offset=now&live=long-poll")
        assert eventually(lambda: subscribed.waiting(f"/v1/stream/{pull.wake_stream}"))
        pull.api.append(pull.path)
        assert pull.name.encode() in worker.read().body


def test_a_claim_is_answered_as_documented(pull: Pull, claimed: dict[str, Any]) -> None:
    """§7.2."""
    assert claimed.pop("wake_id").startswith("w_")
    assert len(claimed.pop("token").split(".")) == 3
    stream = {
        "path": pull.path,
        "link_type": "explicit",
        "acked_offset": offset(0),
        "tail_offset": offset(4),
        "has_pending": True,
    }
    assert claimed == {"generation": 1, "streams": [stream], "lease_ttl_ms": 30_000}


def test_a_second_worker_is_told_who_holds_the_lease(pull: Pull, claimed: dict[str, Any]) -> None:
    """§7.2."""
    answer = pull.api.claim(pull.name, "worker-2")
    assert refusal(answer) == (409, "ALREADY_CLAIMED")
    error = document(answer)["error"]
    assert (error["current_holder"], error["generation"]) == ("worker-1", 1)


def test_of_many_workers_that_race_one_wins(pull: Pull, subscribed: Server) -> None:
    pull.append()

    def race(worker: int) -> int:
        with subscribed.connect() as wire:
            return Api(wire).claim(pull.name, f"worker-{worker}").status

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(race, range(8))) == [200, *[409] * 7]


def test_there_is_nothing_to_claim_without_news(pull: Pull) -> None:
    assert refusal(pull.api.claim(pull.name)) == (409, "NO_PENDING_WORK")


def test_acks_are_inclusive_and_done_ends_the_work(pull: Pull, claimed: dict[str, Any]) -> None:
    """§7.2: acking N means that the next read starts after N."""
    assert document(pull.ack(claimed, 4, done=True)) == {"ok": True, "next_wake": False}
    assert pull.acked == offset(4)
    assert refusal(pull.api.claim(pull.name)) == (409, "NO_PENDING_WORK")
    assert pull.generations() == [1]


def test_an_ack_without_done_keeps_the_claim(pull: Pull, claimed: dict[str, Any]) -> None:
    assert document(pull.ack(claimed, 2)) == {"ok": True, "next_wake": False}
    assert pull.acked == offset(2)
    assert refusal(pull.api.claim(pull.name, "worker-2")) == (409, "ALREADY_CLAIMED")


def test_done_with_work_left_writes_the_next_wake(pull: Pull, claimed: dict[str, Any]) -> None:
    """§7.2: what came while the worker had the lease is told when it gives it back."""
    pull.api.append(pull.path)
    assert pull.generations() == [1]
    assert document(pull.ack(claimed, 4, done=True)) == {"ok": True, "next_wake": True}
    assert eventually(lambda: pull.generations() == [1, 2])
    assert pull.claim("worker-2")["streams"][0]["acked_offset"] == offset(4)


def test_a_release_acks_nothing_and_writes_another_wake(pull: Pull, claimed: dict[str, Any]) -> None:
    """§7.2."""
    answer = pull.release(claimed)
    assert (answer.status, answer.body) == (204, b"")
    assert eventually(lambda: pull.generations() == [1, 2])
    second = pull.claim("worker-2")
    assert (second["generation"], second["streams"][0]["acked_offset"]) == (2, offset(0))
    assert second["wake_id"] != claimed["wake_id"]


def test_a_release_without_work_left_writes_no_wake(pull: Pull, claimed: dict[str, Any]) -> None:
    pull.ack(claimed, 4)
    assert pull.release(claimed).status == 204
    assert pull.generations() == [1]


def test_a_worker_without_its_lease_is_fenced(pull: Pull, claimed: dict[str, Any]) -> None:
    """§7.3: whatever it says of its own wake, and whatever it says of the current one."""
    pull.release(claimed)
    current = pull.claim("worker-2")
    assert refusal(pull.ack(claimed, 4, done=True)) == (409, "FENCED")
    assert refusal(pull.release(claimed)) == (409, "FENCED")
    assert refusal(pull.ack(current, 4, token=claimed["token"])) == (409, "FENCED")
    assert refusal(pull.release(current, wake_id=claimed["wake_id"])) == (409, "FENCED")
    assert refusal(pull.ack(current, 4, generation=1)) == (409, "FENCED")
    assert pull.acked == offset(0)


@pytest.mark.parametrize("action", ["ack", "release"])
def test_a_report_needs_the_token_of_the_claim(pull: Pull, claimed: dict[str, Any], action: str) -> None:
    """§12.9."""
    said = {"wake_id": claimed["wake_id"], "generation": 1}
    assert refusal(pull.api.send("POST", f"{pull.name}/{action}", said)) == (401, "TOKEN_INVALID")
    other = Pull(pull.api)
    other.append()
    answer = pull.api.report(action, pull.name, claimed, token=other.claim()["token"])
    assert refusal(answer) == (401, "TOKEN_INVALID")


@pytest.mark.parametrize("action", ["ack", "release"])
def test_a_deleted_subscription_takes_no_report(pull: Pull, claimed: dict[str, Any], action: str) -> None:
    """§6.3."""
    pull.api.send("DELETE", pull.name)
    answer = pull.api.report(action, pull.name, claimed)
    assert refusal(answer) == (404, "SUBSCRIPTION_NOT_FOUND")
    assert refusal(pull.api.claim(pull.name)) == (404, "SUBSCRIPTION_NOT_FOUND")


def test_each_kind_is_reported_to_at_its_own_place(api: Api, pull: Pull, claimed: dict[str, Any], hooks: Hooks) -> None:
    name = fresh()
    api.subscribe(name, hooks.url, streams=[pull.path])
    api.append(pull.path)
    wake = hooks.next().wake
    assert refusal(api.report("callback", pull.name, claimed)) == (400, "INVALID_REQUEST")
    for action in ("ack", "release"):
        assert refusal(api.report(action, name, wake)) == (400, "INVALID_REQUEST")
    assert refusal(api.claim(name)) == (400, "INVALID_REQUEST")


def test_acks_extend_the_lease_which_runs_out_without_them(api: Api, subscribed: Server) -> None:
    """§7.3: then there is another wake, and the worker is fenced."""
    pull = Pull(api, lease_ttl_ms=1000)
    pull.append()
    claimed = pull.claim()
    time.sleep(0.7)
    assert pull.ack(claimed).status == 200
    time.sleep(0.7)
    assert refusal(api.claim(pull.name, "worker-2")) == (409, "ALREADY_CLAIMED")
    assert eventually(lambda: pull.generations() == [1, 2])
    assert refusal(pull.ack(claimed, 4)) == (409, "FENCED")
    assert pull.claim("worker-2")["generation"] == 2


def test_a_wake_stream_is_not_made_by_the_server_but_waited_for() -> None:
    """§7.2: the application creates it."""
    name, path, wake_stream = fresh(), fresh("jobs"), fresh("wake")
    config = {"type": "pull-wake", "streams": [path], "wake_stream": wake_stream}
    soon = ServerTuning(engine=EngineTuning(subscriptions=SubscriptionsTuning(missing_stream_ms=50)))
    with RunningServer(configured(), tuning=soon) as server, server.connect() as wire:
        api = Api(wire)
        api.create(path)
        assert api.send("PUT", name, config).status == 201
        api.append(path)
        assert wire.get(f"/v1/stream/{wake_stream}").refusal == (404, "stream_not_found")
        wire.create(f"/v1/stream/{wake_stream}", "application/json")
        assert eventually(lambda: api.events(wake_stream))


def test_a_wake_stream_may_serve_many_and_match_the_pattern(api: Api) -> None:
    """A wake is no news for the subscription that it is of."""
    folder = fresh("all")
    names = [fresh(), fresh()]
    api.wire.create(f"/v1/stream/{folder}/wake", "application/json")
    for name in names:
        config = {"type": "pull-wake", "pattern": f"{folder}/jobs/*", "wake_stream": f"{folder}/wake"}
        api.send("PUT", name, config)
    api.create(f"{folder}/jobs/1", b"news")
    assert eventually(lambda: len(api.events(f"{folder}/wake")) == 2)
    assert {event["subscription_id"] for event in api.events(f"{folder}/wake")} == set(names)


def test_a_pattern_that_matches_its_own_wake_stream_wakes_for_other_streams_only(api: Api) -> None:
    name, folder = fresh(), fresh("all")
    api.wire.create(f"/v1/stream/{folder}/wake", "application/json")
    api.send("PUT", name, {"type": "pull-wake", "pattern": f"{folder}/**", "wake_stream": f"{folder}/wake"})
    api.create(f"{folder}/job", b"news")
    assert eventually(lambda: api.events(f"{folder}/wake"))
    claimed = document(api.claim(name))
    assert [stream["path"] for stream in claimed["streams"]] == [f"{folder}/job"]
    acks = [{"stream": f"{folder}/job", "offset": offset(4)}]
    assert document(api.report("ack", name, claimed, acks=acks, done=True))["next_wake"] is False
    assert len(api.events(f"{folder}/wake")) == 1


def test_a_subscription_whose_wake_stream_is_full_says_so(start: Start, connect: Connect) -> None:
    api = Api(connect(start(limits__max_wake_stream_bytes=1)))
    pull = Pull(api)
    assert "problem" not in api.describe(pull.name)
    api.append(pull.path)
    assert eventually(lambda: api.describe(pull.name)["status"] == "failed")
    problem = api.describe(pull.name)["problem"]
    assert problem["code"] == "WAKE_STREAM_FULL"
    assert "limits.max_wake_stream_bytes" in problem["message"]
    assert "everbrook_subscriptions_blocked 1.0" in api.wire.get("/metrics").body.decode()


def test_subscriptions_are_counted_by_bucket_and_surface(start: Start, connect: Connect) -> None:
    wire = connect(start())
    wire.request("PUT", "/ds/acme")
    Pull(Api(wire))
    for _ in range(2):
        Pull(Api(wire, "/ds/acme"))
    assert document(wire.get("/ds/acme"))["subscriptions"] == 2
    metrics = wire.get("/metrics").body.decode()
    assert 'everbrook_subscriptions{surface="base",type="pull-wake"} 1.0' in metrics
    assert 'everbrook_subscriptions{surface="bucket",type="pull-wake"} 2.0' in metrics


def test_one_subscription_more_than_there_may_be_is_refused(start: Start, connect: Connect) -> None:
    api = Api(connect(start(limits__max_subscriptions=1)))
    pull = Pull(api)
    config = {"type": "pull-wake", "wake_stream": pull.wake_stream, "streams": [pull.path]}
    assert refusal(api.send("PUT", "another", config)) == (413, "TOO_MANY_SUBSCRIPTIONS")
    api.send("DELETE", pull.name)
    assert api.send("PUT", "another", config).status == 201
