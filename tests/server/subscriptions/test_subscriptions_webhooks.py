"""Webhooks from the append to the ack: delivery, synchronous `done`, callbacks, fencing (§7.1, §7.3)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from everbrook.client import Jwks, Reason, Receiver, SignatureInvalid
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.subscriber import DONE, PATIENCE_SECS, Api, Hook, Hooks, document, fresh, offset, refusal
from tests.kit.wire import Answer

Server = RunningServer | Mounted


@pytest.fixture
def name(api: Api, hooks: Hooks, folder: str) -> Iterator[str]:
    """A subscription to a folder, whose receiver takes what comes and says nothing of it."""
    name = fresh()
    api.subscribe(name, hooks.url, pattern=f"{folder}/*")
    yield name
    api.send("DELETE", name)


@pytest.fixture
def folder() -> str:
    return fresh("events")


@pytest.fixture
def path(api: Api, folder: str, name: str) -> str:
    """A stream of the subscription, without news."""
    api.create(f"{folder}/a")
    return f"{folder}/a"


@pytest.fixture
def wake(api: Api, hooks: Hooks, path: str) -> dict[str, Any]:
    """The first wake of the subscription: its stream has four bytes."""
    api.append(path, b"news")
    return hooks.next().wake


def acks(path: str, position: int) -> list[dict[str, str]]:
    return [{"stream": path, "offset": offset(position)}]


def ok(answer: Answer) -> bool:
    """Whether a callback was taken; gives whether another wake follows."""
    assert answer.status == 200, answer
    body = document(answer)
    assert body == {"ok": True, "next_wake": body["next_wake"]}
    return bool(body["next_wake"])


# Delivery


def test_a_webhook_is_as_documented(api: Api, subscribed: Server, wake: dict[str, Any], name: str, path: str) -> None:
    """§7.1."""
    assert wake.pop("wake_id").startswith("w_")
    assert len(wake.pop("callback_token").split(".")) == 3
    assert wake == {
        "subscription_id": name,
        "generation": 1,
        "streams": [
            {
                "path": path,
                "link_type": "glob",
                "acked_offset": "-1",
                "tail_offset": offset(4),
                "has_pending": True,
            }
        ],
        "callback_url": f"{subscribed.origin}/v1/stream/__ds/subscriptions/{name}/callback",
    }


def test_its_signature_is_one_that_the_published_keys_verify(api: Api, hooks: Hooks, name: str, path: str) -> None:
    """§7.1, §12.10: over the exact bytes, under a key of the set that the subscription names."""
    jwks_url = api.describe(name)["webhook"]["signing"]["jwks_url"]
    receiver = Receiver(Jwks(jwks_url))
    api.append(path)
    hook = hooks.next()
    assert hook.headers["content-type"] == "application/json"
    receiver.check(hook.body, hook.headers["webhook-signature"])
    with pytest.raises(SignatureInvalid) as raised:
        receiver.check(hook.body + b" ", hook.headers["webhook-signature"])
    assert raised.value.reason is Reason.MISMATCH


def test_what_was_there_before_wakes_nobody(api: Api, hooks: Hooks) -> None:
    """§6.2: existing streams are linked at their tail; the wake tells what came after."""
    name, folder = fresh(), fresh("events")
    api.create(f"{folder}/a", b"old")
    api.subscribe(name, hooks.url, pattern=f"{folder}/*")
    assert hooks.quiet_for(0.1)
    api.append(f"{folder}/a", b"new")
    (stream,) = hooks.next().wake["streams"]
    assert (stream["acked_offset"], stream["tail_offset"]) == (offset(3), offset(6))


def test_a_stream_that_is_created_with_data_wakes(api: Api, hooks: Hooks, name: str, folder: str) -> None:
    api.create(f"{folder}/full", b"news")
    assert hooks.next().wake["streams"][0]["path"] == f"{folder}/full"


def test_an_explicit_link_wakes_as_explicit(api: Api, hooks: Hooks, name: str) -> None:
    path = fresh("else/where")
    api.create(path, b"old")
    api.send("POST", f"{name}/streams", {"streams": [path]})
    api.append(path)
    (stream,) = hooks.next().wake["streams"]
    assert (stream["path"], stream["link_type"], stream["acked_offset"]) == (path, "explicit", offset(3))


def test_while_a_wake_is_in_flight_there_is_no_other(api: Api, hooks: Hooks, wake: dict[str, Any], path: str) -> None:
    """§7: pending work creates a new generation unless one is in flight."""
    api.append(path)
    assert hooks.quiet_for(0.2)


def test_streams_of_one_wake_come_together(api: Api, hooks: Hooks, name: str, folder: str) -> None:
    for each in "bcd":
        api.create(f"{folder}/{each}")
    api.append(f"{folder}/b")
    first = hooks.next().wake
    api.append(f"{folder}/c")
    api.append(f"{folder}/d")
    api.report("callback", name, first, acks=acks(f"{folder}/b", 4), done=True)
    assert {stream["path"] for stream in hooks.next().wake["streams"]} == {f"{folder}/c", f"{folder}/d"}


# Synchronous done


def test_done_in_the_answer_acks_what_the_wake_told_of(api: Api, hooks: Hooks, name: str, path: str) -> None:
    """§7.1."""
    hooks.respond = lambda _hook: DONE
    api.append(path)
    hooks.next()
    assert eventually(lambda: api.acked(name, path) == offset(4))
    assert hooks.quiet_for(0.1)


def test_what_came_while_the_receiver_worked_is_another_wake(api: Api, hooks: Hooks, name: str, path: str) -> None:
    """§7.1: with a new wake id and generation."""
    go_on = threading.Event()

    def respond(_hook: Hook) -> tuple[int, bytes]:
        assert go_on.wait(PATIENCE_SECS)
        return DONE

    hooks.respond = respond
    api.append(path)
    first = hooks.next().wake
    api.append(path)
    go_on.set()
    second = hooks.next().wake
    assert second["generation"] == first["generation"] + 1
    assert second["wake_id"] != first["wake_id"]
    assert [stream["acked_offset"] for stream in second["streams"]] == [offset(4)]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"done": false}', b'{"done": 1}', b"[]", b"done", b'{"done": tru'])
def test_any_other_answer_leaves_the_wake_in_flight(api: Api, hooks: Hooks, name: str, path: str, body: bytes) -> None:
    hooks.respond = lambda _hook: (202, body)
    api.append(path)
    wake = hooks.next().wake
    assert api.acked(name, path) == "-1"
    assert not ok(api.report("callback", name, wake, acks=acks(path, 4), done=True))


# Callbacks


def test_a_callback_acks_and_is_done(api: Api, wake: dict[str, Any], name: str, path: str) -> None:
    """§7.1."""
    assert not ok(api.report("callback", name, wake, acks=acks(path, 4), done=True))
    assert api.acked(name, path) == offset(4)


def test_done_with_work_left_says_that_another_wake_follows(
    api: Api, hooks: Hooks, wake: dict[str, Any], name: str, path: str
) -> None:
    assert ok(api.report("callback", name, wake, acks=acks(path, 2), done=True))
    second = hooks.next().wake
    assert (second["generation"], second["streams"][0]["acked_offset"]) == (2, offset(2))


def test_a_callback_without_done_keeps_the_wake(
    api: Api, hooks: Hooks, wake: dict[str, Any], name: str, path: str
) -> None:
    assert not ok(api.report("callback", name, wake, acks=acks(path, 4)))
    api.append(path)
    assert hooks.quiet_for(0.1)
    assert not ok(api.report("callback", name, wake, acks=acks(path, 8), done=True))


# Fencing


@pytest.mark.parametrize("stale", [{"wake_id": "w_other"}, {"generation": 0}, {"generation": 2}])
def test_a_stale_callback_is_fenced(
    api: Api, wake: dict[str, Any], name: str, path: str, stale: dict[str, object]
) -> None:
    """§7.1, §7.3."""
    answer = api.report("callback", name, wake, acks=acks(path, 4), done=True, **stale)
    assert refusal(answer) == (409, "FENCED")
    assert api.acked(name, path) == "-1"


def test_a_wake_that_is_done_is_over(api: Api, wake: dict[str, Any], name: str, path: str) -> None:
    api.report("callback", name, wake, done=True, acks=acks(path, 4))
    for again in ({}, {"done": True}, {"acks": acks(path, 4)}):
        assert refusal(api.report("callback", name, wake, **again)) == (409, "FENCED")


def test_the_token_of_an_older_wake_does_not_speak_for_the_current_one(
    api: Api, hooks: Hooks, wake: dict[str, Any], name: str, path: str
) -> None:
    """§7.3: the token's generation has to match too."""
    api.report("callback", name, wake, done=True)
    current = hooks.next().wake
    answer = api.report("callback", name, current, token=wake["callback_token"], acks=acks(path, 4))
    assert refusal(answer) == (409, "FENCED")
    assert not ok(api.report("callback", name, current, acks=acks(path, 4), done=True))


def test_the_token_of_another_subscription_is_no_token_here(
    api: Api, hooks: Hooks, wake: dict[str, Any], name: str, path: str
) -> None:
    other = fresh()
    api.subscribe(other, hooks.url, streams=[path])
    api.append(path)
    token = hooks.next().wake["callback_token"]
    assert refusal(api.report("callback", name, wake, token=token)) == (401, "TOKEN_INVALID")


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer a.b.c", "bearer x" * 999]
)
def test_without_a_token_of_this_server_nobody_is_heard(
    api: Api, wake: dict[str, Any], name: str, authorization: str | None
) -> None:
    """§12.9."""
    said = {"wake_id": wake["wake_id"], "generation": wake["generation"], "done": True}
    headers = {} if authorization is None else {"authorization": authorization}
    answer = api.send("POST", f"{name}/callback", said, **headers)
    assert refusal(answer) == (401, "TOKEN_INVALID")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_is_not_believed_with_another_signature(api: Api, wake: dict[str, Any], name: str) -> None:
    head, claims, signature = wake["callback_token"].split(".")
    other = "A" if signature[0] != "A" else "B"
    token = f"{head}.{claims}.{other}{signature[1:]}"
    assert refusal(api.report("callback", name, wake, token=token)) == (401, "TOKEN_INVALID")


def test_a_deleted_subscription_takes_no_callback_nor_does_its_successor(
    api: Api, hooks: Hooks, wake: dict[str, Any], name: str, path: str
) -> None:
    """§6.3: it must fail, and must not advance cursors."""
    api.send("DELETE", name)
    assert refusal(api.report("callback", name, wake, acks=acks(path, 4))) == (404, "SUBSCRIPTION_NOT_FOUND")
    api.subscribe(name, hooks.url, streams=[path])
    assert refusal(api.report("callback", name, wake, acks=acks(path, 4))) == (401, "TOKEN_INVALID")


# Acks


@pytest.mark.parametrize("wrong", [offset(5), "now", "-1", "", "4", "x" * 300, "0000000000000000_0000000000000004"])
def test_an_ack_that_is_no_offset_up_to_the_tail_is_refused(
    api: Api, wake: dict[str, Any], name: str, path: str, wrong: str
) -> None:
    answer = api.report("callback", name, wake, acks=[{"stream": path, "offset": wrong}])
    assert refusal(answer) == (409, "INVALID_OFFSET")
    assert api.acked(name, path) == "-1"


def test_an_ack_does_not_move_back(api: Api, wake: dict[str, Any], name: str, path: str) -> None:
    api.report("callback", name, wake, acks=acks(path, 3))
    assert refusal(api.report("callback", name, wake, acks=acks(path, 2))) == (409, "INVALID_OFFSET")
    assert not ok(api.report("callback", name, wake, acks=acks(path, 3)))


def test_one_wrong_ack_spoils_all_of_them(api: Api, wake: dict[str, Any], name: str, path: str) -> None:
    answer = api.report("callback", name, wake, acks=acks(path, 4) + acks("not/linked", 0), done=True)
    assert refusal(answer) == (409, "INVALID_OFFSET")
    assert api.acked(name, path) == "-1"


# Buckets


def test_silent_receivers_of_one_bucket_do_not_delay_those_of_others(
    start: Start, connect: Connect, hooks: Hooks
) -> None:
    """Two slots, and three deliveries of the bucket that nobody answers."""
    wire = connect(start(webhooks__allow_loopback_http=True, webhooks__max_concurrent=2))
    wire.request("PUT", "/ds/acme")
    hostile, normal, silence = Api(wire, "/ds/acme"), Api(wire), threading.Event()
    with Hooks() as silent:
        silent.respond = lambda _hook: (200, b"") if silence.wait(PATIENCE_SECS) else (500, b"")
        try:
            hostile.create("news")
            for _ in range(3):
                hostile.subscribe(fresh(), silent.url, streams=["news"])
            hostile.append("news")
            silent.next()
            path = fresh("events")
            normal.create(path)
            normal.subscribe(fresh(), hooks.url, streams=[path])
            normal.append(path)
            assert hooks.next().wake["streams"][0]["path"] == path
            assert not silence.is_set()
        finally:
            silence.set()
