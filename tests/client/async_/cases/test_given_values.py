"""What users give: refused before anything is sent where it makes no sense, and asked for anew with each request."""

from collections.abc import Callable
from itertools import count

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.retry import Retry
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio


def counter() -> Callable[[], str]:
    numbers = count(1)
    return lambda: str(next(numbers))


def test_a_sound_retry_is_accepted() -> None:
    assert Retry(3, 0.1, 1.0, 1.5).max_attempts == 3


@pytest.mark.parametrize(
    "values",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"first_delay_secs": 0},
        {"first_delay_secs": -1},
        {"first_delay_secs": 2.0, "max_delay_secs": 1.0},
        {"multiplier": 0.5},
    ],
    ids=str,
)
def test_a_retry_that_makes_no_sense_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=str(list(values.values())[-1])):
        Retry(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"epoch": -1},
        {"seq": -1},
        {"max_batch_bytes": 0},
        {"max_batch_bytes": -1},
        {"max_batch_items": 0},
        {"max_batch_items": -1},
        {"max_in_flight": 0},
        {"linger_secs": -1},
        {"id": ""},
    ],
    ids=str,
)
async def test_a_producer_that_makes_no_sense_is_refused(
    stream: AsyncStream[object], values: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"must be|must not|has an id"):
        stream.producer(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["", "127.0.0.1:4437", "ftp://example.org", "http://", "http://a/?x=1"])
def test_a_url_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBROOK_URL", "nonsense")
    with pytest.raises(ValueError, match="URL of a server"):
        AsyncClient(url)


async def test_headers_and_parameters_are_asked_for_each_time(writer: Writer, proxy: Proxy) -> None:
    writer.create("text/plain")
    async with AsyncClient(
        proxy.origin, headers={"X-Request-Counter": counter()}, params={"request_id": counter()}
    ) as client:
        stream = client.stream(writer.name, content_type="text/plain")
        for word in ("first", "second"):
            await stream.append(word)
        for _ in range(2):
            assert await stream.read().text() == "firstsecond"
    assert [request.headers["x-request-counter"] for request in proxy.requests] == ["1", "2", "3", "4"]
    assert all(f"request_id={number}" in request.target for number, request in enumerate(proxy.requests, 1))


async def test_a_header_may_carry_a_token_that_changes(writer: Writer, proxy: Proxy) -> None:
    writer.create("text/plain")
    tokens = iter(["Bearer v1", "Bearer v2"])
    async with AsyncClient(proxy.origin, headers={"Authorization": lambda: next(tokens)}) as client:
        stream = client.stream(writer.name, content_type="text/plain")
        await stream.append("first")
        await stream.append("second")
    assert [request.headers["authorization"] for request in proxy.requests] == ["Bearer v1", "Bearer v2"]


async def test_parameters_do_not_displace_those_of_the_protocol(writer: Writer, proxy: Proxy) -> None:
    writer.create("application/json", b"[1]").later(b"[2]", close=True)
    async with AsyncClient(proxy.origin, params={"tenant": "a b&c"}) as client:
        assert await client.stream(writer.name).follow().all() == [1, 2]
    assert all("tenant=a" in request.target and "offset=" in request.target for request in proxy.requests)
