"""How much may be said about a subscription: all that is allowed fits, and of strangers next to nothing is taken."""

from typing import Any

import pytest

from everbrook.server.exchange import JUDGED_BYTES
from everbrook.server.methods import MAX_CONFIG_BYTES, MAX_REPORT_BYTES, max_body_bytes
from tests.kit.servers import StartEither
from tests.kit.subscriber import Api, document, fresh, offset
from tests.kit.wire import chunked

LONG = 400
"""How many bytes the longest path of a stream has."""

FRAMINGS = {"declared": {"content_length": str(JUDGED_BYTES + 1)}, "chunked": {"transfer_encoding": "chunked"}}


def long_path() -> str:
    return fresh("long").ljust(LONG, "x")


class Claimed:
    """A subscription to a stream with the longest name, and what its worker was given."""

    def __init__(self, api: Api) -> None:
        self.name, self.path = fresh(), long_path()
        api.create(self.path)
        api.subscribe_pull(self.name, fresh("wake"), streams=[self.path])
        api.append(self.path)
        self.wake: dict[str, Any] = document(api.claim(self.name))
        self.url = f"{api.root}/__ds/subscriptions/{self.name}/ack"
        self.bearer = f"Bearer {self.wake['token']}"


@pytest.fixture
def claimed(api: Api) -> Claimed:
    return Claimed(api)


def test_all_streams_of_a_wake_may_be_acked_at_once(api: Api, claimed: Claimed) -> None:
    acks = [{"stream": claimed.path, "offset": offset(4)}] * 1000
    assert api.report("ack", claimed.name, claimed.wake, acks=acks, done=True).status == 200
    assert api.acked(claimed.name, claimed.path) == offset(4)


def test_a_subscription_may_be_created_with_ten_thousand_of_the_longest_names(api: Api) -> None:
    config = {"type": "pull-wake", "wake_stream": "wake", "streams": [long_path()] * 10_000}
    assert api.send("PUT", fresh(), config).status == 201


def test_a_larger_report_is_refused_before_it_is_sent(api: Api, claimed: Claimed) -> None:
    api.wire.ask("POST", claimed.url, authorization=claimed.bearer, content_length=str(MAX_REPORT_BYTES + 1))
    answer = api.wire.read()
    assert answer.refusal == (413, "payload_too_large")
    assert answer.problem["detail"] == "the body holds at most 512000 bytes"


def test_a_report_in_chunks_is_bounded_too(api: Api, claimed: Claimed) -> None:
    api.wire.ask("POST", f"{claimed.url}?x=1", authorization=claimed.bearer, transfer_encoding="chunked")
    api.wire.send(chunked(*[b" " * 64_000] * 9))
    assert api.wire.read().refusal == (413, "payload_too_large")


@pytest.mark.parametrize("below", ["", "/streams"])
def test_what_configures_a_subscription_is_bounded(api: Api, below: str) -> None:
    url = f"{api.root}/__ds/subscriptions/{fresh()}{below}"
    api.wire.ask("POST" if below else "PUT", url, content_length=str(MAX_CONFIG_BYTES + 1))
    assert api.wire.read().refusal == (413, "payload_too_large")


@pytest.mark.parametrize("action", ["callback", "ack", "release"])
@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.parametrize("shown", [{}, {"authorization": "Bearer x"}], ids=["nothing", "a token"])
def test_of_a_stranger_no_large_report_is_taken(
    api: Api, action: str, framing: dict[str, str], shown: dict[str, str]
) -> None:
    api.wire.ask("POST", f"{api.root}/__ds/subscriptions/{fresh()}/{action}", **framing, **shown)
    assert api.wire.read().refusal == (401, "TOKEN_INVALID")


def test_a_smaller_limit_of_the_settings_holds_here_as_well(start_either: StartEither) -> None:
    with start_either(limits__max_append_bytes=1000).connect() as wire:
        assert Api(wire).send("POST", f"{fresh()}/claim", b" " * 1001).status == 413


def test_only_what_is_about_a_subscription_has_a_bound_of_its_own() -> None:
    assert max_body_bytes(b"/v1/stream/__ds/subscriptions/s/ack", 10**9) == MAX_REPORT_BYTES
    assert max_body_bytes(b"/ds/acme/__ds/subscriptions/s/callback", 10**9) == MAX_REPORT_BYTES
    assert max_body_bytes(b"/v1/stream/__ds/subscriptions/ack", 10**9) == MAX_CONFIG_BYTES
    assert max_body_bytes(b"/v1/stream/subscriptions/s/ack", 10**9) == 10**9
