"""Tokens: asked for when they are needed, and again when the server does not take the old one any more."""

from collections.abc import AsyncIterator
from itertools import count

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client.retry import Retry
from everbrook.protocol.errors import ProtocolError
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, Reply, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

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
async def renewing(proxy: Proxy, guard: Guard) -> AsyncIterator[AsyncClient]:
    """A client that asks for a token, and gets the next one each time."""
    numbers = count(1)
    async with AsyncClient(
        proxy.origin, token=lambda: f"token-{next(numbers)}", retry=Retry(first_delay_secs=0.01, max_delay_secs=0.01)
    ) as client:
        yield client


async def test_a_token_goes_with_every_request(writer: Writer, proxy: Proxy, guard: Guard) -> None:
    async with AsyncClient(proxy.origin, token=FIRST) as client:
        stream = client.stream(writer.name)
        await stream.create()
        await stream.append(1)
        assert await stream.read().all() == [1]
    assert all("authorization" in request.headers for request in proxy.requests)


async def test_a_token_that_is_not_valid_is_a_clear_refusal(writer: Writer, proxy: Proxy, guard: Guard) -> None:
    writer.create()
    async with AsyncClient(proxy.origin, token=THIRD) as client:
        with pytest.raises(ProtocolError, match="not valid") as refusal:
            await client.stream(writer.name).read().all()
    assert refusal.value.status == 401
    assert len(proxy.requests) == 1


async def test_a_new_token_is_asked_for_when_the_old_one_is_refused(
    writer: Writer, guard: Guard, renewing: AsyncClient
) -> None:
    stream = renewing.stream(writer.name)
    await stream.create()
    guard.token = SECOND
    await stream.append("again")
    guard.token = THIRD
    assert await stream.read().all() == ["again"]
    assert writer.messages() == ["again"]


async def test_it_is_asked_for_once_and_not_for_ever(
    writer: Writer, proxy: Proxy, guard: Guard, renewing: AsyncClient
) -> None:
    writer.create()
    guard.token = "no" + THIRD
    with pytest.raises(ProtocolError, match="not valid"):
        await renewing.stream(writer.name).read().all()
    assert len(proxy.requests) == 2


@pytest.mark.parametrize("mode", ["sse", "long-poll", "auto"])
async def test_a_follower_goes_on_with_a_new_token(
    writer: Writer, proxy: Proxy, guard: Guard, renewing: AsyncClient, mode: str
) -> None:
    writer.create("application/json", b"0").later(*(b"%d" % number for number in range(1, 9)), close=True)
    got = []
    async for value in renewing.stream(writer.name).follow(mode=mode):  # type: ignore[arg-type]
        got.append(value)
        if value == 3:
            guard.token = SECOND
            proxy.cut_all()
    assert got == list(range(9))


async def test_a_producer_goes_on_with_a_new_token(writer: Writer, guard: Guard, renewing: AsyncClient) -> None:
    writer.create("application/json")
    async with renewing.stream(writer.name).producer() as producer:
        await producer.append("first")
        await producer.flush()
        guard.token = SECOND
        await producer.append("second")
    assert writer.messages() == ["first", "second"]


async def test_a_token_may_take_time(writer: Writer, proxy: Proxy, guard: Guard) -> None:  # async only
    writer.create("text/plain", b"secret")

    async def ask() -> str:
        return FIRST

    async with AsyncClient(proxy.origin, token=ask) as client:
        assert await client.stream(writer.name).read().text() == "secret"
