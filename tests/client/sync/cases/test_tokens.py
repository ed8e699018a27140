# Written by tools/mirror.py from tests/client/async_/cases/test_tokens.py: change that file, not this one.
"""Tokens: asked for when they are needed, and again when the server does not take the old one any more."""

from collections.abc import Iterator
from itertools import count

import pytest

from everbrook.client._sync.client import Client
from everbrook.client.retry import Retry
from everbrook.protocol.errors import ProtocolError
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, Reply, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

FIRST, SECOND, THIRD = (f"token-{number}" for number in (1, 2, 3))
REFUSED = Reply(401, {"WWW-Authenticate": "Bearer"}, b"this token is not valid")


class Guard:
    """Lets requests through that have the token of the hour."""

    def __init__(self) -> None:
        self.token = FIRST

    def __call__(self, request: Request) -> Fault:
        return Sound() if request.headers.get("authorization") == f"Bearer {self.token}" else REFUSED


@pytest.fixture
def guard(proxy: Proxy) -> Guard:
    guard = Guard()
    proxy.follow_plan(guard)
    return guard


@pytest.fixture
def renewing(proxy: Proxy, guard: Guard) -> Iterator[Client]:
    """A client that asks for a token, and gets the next one each time."""
    numbers = count(1)
    with Client(
        proxy.origin, token=lambda: f"token-{next(numbers)}", retry=Retry(first_delay_secs=0.01, max_delay_secs=0.01)
    ) as client:
        yield client


def test_a_token_goes_with_every_request(writer: Writer, proxy: Proxy, guard: Guard) -> None:
    with Client(proxy.origin, token=FIRST) as client:
        stream = client.stream(writer.name)
        stream.create()
        stream.append(1)
        assert stream.read().all() == [1]
    assert all("authorization" in request.headers for request in proxy.requests)


def test_a_token_that_is_not_valid_is_a_clear_refusal(writer: Writer, proxy: Proxy, guard: Guard) -> None:
    writer.create()
    with Client(proxy.origin, token=THIRD) as client, pytest.raises(ProtocolError, match="not valid") as refusal:
        client.stream(writer.name).read().all()
    assert refusal.value.status == 401
    assert len(proxy.requests) == 1


def test_a_new_token_is_asked_for_when_the_old_one_is_refused(writer: Writer, guard: Guard, renewing: Client) -> None:
    stream = renewing.stream(writer.name)
    stream.create()
    guard.token = SECOND
    stream.append("again")
    guard.token = THIRD
    assert stream.read().all() == ["again"]
    assert writer.messages() == ["again"]


def test_it_is_asked_for_once_and_not_for_ever(writer: Writer, proxy: Proxy, guard: Guard, renewing: Client) -> None:
    writer.create()
    guard.token = "no" + THIRD
    with pytest.raises(ProtocolError, match="not valid"):
        renewing.stream(writer.name).read().all()
    assert len(proxy.requests) == 2


@pytest.mark.parametrize("mode", ["sse", "long-poll", "auto"])
def test_a_follower_goes_on_with_a_new_token(
    writer: Writer, proxy: Proxy, guard: Guard, renewing: Client, mode: str
) -> None:
    writer.create("application/json", b"0").later(*(b"%d" % number for number in range(1, 9)), close=True)
    got = []
    for value in renewing.stream(writer.name).follow(mode=mode):  # type: ignore[arg-type]
        got.append(value)
        if value == 3:
            guard.token = SECOND
            proxy.cut_all()
    assert got == list(range(9))


def test_a_producer_goes_on_with_a_new_token(writer: Writer, guard: Guard, renewing: Client) -> None:
    writer.create("application/json")
    with renewing.stream(writer.name).producer() as producer:
        producer.append("first")
        producer.flush()
        guard.token = SECOND
        producer.append("second")
    assert writer.messages() == ["first", "second"]
