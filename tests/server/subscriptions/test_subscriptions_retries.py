"""Time in the life of a webhook: leases that run out, deliveries that are tried again (§7.1, §7.3)."""

import time
from collections.abc import Iterator

import pytest

from tests.kit.server_thread import RunningServer, configured, eventually
from tests.kit.subscriber import DONE, Api, Hooks, document, fresh, offset, refusal


@pytest.fixture(scope="module")
def subscribed() -> Iterator[RunningServer]:
    """One server for all of them: time is the engine's, whatever the transport."""
    with RunningServer(configured(webhooks__allow_loopback_http=True)) as running:
        yield running


@pytest.fixture
def path(api: Api) -> str:
    """A stream without news."""
    path = fresh("events")
    api.create(path)
    return path


@pytest.fixture
def name(api: Api, hooks: Hooks, path: str) -> Iterator[str]:
    """A subscription to it."""
    name = fresh()
    api.subscribe(name, hooks.url, streams=[path])
    yield name
    api.send("DELETE", name)


def acks(path: str, position: int) -> list[dict[str, str]]:
    return [{"stream": path, "offset": offset(position)}]


def test_callbacks_extend_the_lease_which_runs_out_without_them(api: Api, hooks: Hooks, path: str) -> None:
    """§7.3: then there is another wake, and what was given with the first is worth nothing."""
    name = fresh()
    api.subscribe(name, hooks.url, streams=[path], lease_ttl_ms=1000)
    api.append(path)
    hook = hooks.next()
    time.sleep(0.7)
    assert api.report("callback", name, hook.wake).status == 200
    second = hooks.next()
    assert second.at - hook.at > 1.6
    assert second.wake["generation"] == 2
    assert refusal(api.report("callback", name, hook.wake, acks=acks(path, 4))) == (409, "FENCED")
    assert api.acked(name, path) == offset(0)


@pytest.mark.timing
@pytest.mark.parametrize("status", [500, 302], ids=["fault", "redirect"])
def test_a_failed_delivery_is_tried_again_and_the_status_tells(
    api: Api, hooks: Hooks, name: str, path: str, status: int
) -> None:
    """§6.3, §7.1: the same wake, about a second later. A redirect is a failure, and is not followed."""
    hooks.respond = lambda _hook: (status, b'{"done": true}')
    api.append(path)
    first = hooks.next()
    assert eventually(lambda: api.describe(name)["status"] == "failed")
    hooks.respond = lambda _hook: DONE
    second = hooks.next()
    assert 0.7 < second.at - first.at < 3.5
    assert second.wake["wake_id"] == first.wake["wake_id"]
    assert second.headers["webhook-signature"] != first.headers["webhook-signature"]
    assert eventually(lambda: api.describe(name)["status"] == "active")
    assert eventually(lambda: api.acked(name, path) == offset(4))


def test_a_receiver_that_was_down_is_told_when_it_is_up(api: Api, path: str) -> None:
    name = fresh()
    with Hooks() as down:
        port = int(down.url.rsplit(":", 1)[1].split("/")[0])
    api.subscribe(name, down.url, streams=[path])
    api.append(path)
    assert eventually(lambda: api.describe(name)["status"] == "failed")
    with Hooks(port) as up:
        up.respond = lambda _hook: DONE
        assert up.next().wake["generation"] == 1
        assert eventually(lambda: api.acked(name, path) == offset(4))


def test_a_wake_that_failed_may_still_be_called_back_for(api: Api, hooks: Hooks, name: str, path: str) -> None:
    """The receiver had it, and only its answer was wrong."""
    hooks.respond = lambda _hook: (500, b"")
    api.append(path)
    wake = hooks.next().wake
    assert eventually(lambda: api.describe(name)["status"] == "failed")
    answer = api.report("callback", name, wake, acks=acks(path, 4), done=True)
    assert document(answer) == {"ok": True, "next_wake": False}
    assert hooks.quiet_for(1.5)
