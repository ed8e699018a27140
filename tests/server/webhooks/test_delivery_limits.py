"""Deliveries at the same time: their number and their idle connections are bounded, and closing ends them."""

import asyncio

import pytest
from msgspec.structs import replace

from everbrook.server.webhooks.delivery import STOPPED, DeliveryOutcome
from tests.server.webhooks.receivers import (
    LIMITS,
    answer,
    local_client,
    receiving,
    run,
    signed,
    silence,
)

BODY = b'{"subscription_id":"s"}'
QUICK = replace(LIMITS, connect_timeout_secs=0.3, total_timeout_secs=0.3)
TIMED_OUT = DeliveryOutcome(None, error="no complete response within 0.3 s")


def test_no_more_deliveries_than_allowed_are_under_way_and_each_is_signed_in_its_turn() -> None:
    async def main() -> None:
        both, release, log = asyncio.Barrier(3), asyncio.Event(), list[str]()

        async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not release.is_set():
                await both.wait()
            await release.wait()
            writer.write(answer(headers=b"Connection: close\r\n"))

        def sign(body: bytes) -> str:
            log.append(body.decode())
            return signed(body)

        async with receiving(behave) as receiver, local_client(replace(LIMITS, max_concurrent=4)) as client:
            url = f"http://127.0.0.1:{receiver.port}/"
            posts = [asyncio.ensure_future(client.post(url, b"%d" % number, sign)) for number in range(5)]
            await both.wait()
            assert log == ["0", "1"]
            release.set()
            assert await asyncio.gather(*posts) == [DeliveryOutcome(200)] * 5
            assert log == ["0", "1", "2", "3", "4"]

    run(main())


def test_silent_receivers_of_one_bucket_hold_up_no_other() -> None:
    async def main() -> None:
        limits = replace(LIMITS, max_concurrent=4)
        async with receiving(silence) as silent, receiving(answer()) as good, local_client(limits) as client:
            url = f"http://127.0.0.1:{silent.port}/"
            posts = [asyncio.ensure_future(client.post(url, BODY, signed, "/ds/hostile/")) for _ in range(20)]
            await silent.arrived.wait()
            for _ in range(10):
                assert (await client.post(f"http://127.0.0.1:{good.port}/", BODY, signed, "/ds/normal/")).accepted
            assert silent.connections == 2
            assert not any(post.done() for post in posts)

    run(main())


def test_idle_connections_are_bounded() -> None:
    async def main() -> None:
        limits = replace(LIMITS, max_idle_connections=1)
        async with receiving(answer()) as one, receiving(answer()) as other, local_client(limits) as client:
            for receiver in (one, other):
                await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)
            await asyncio.wait_for(one.ended.wait(), 5)
            assert not other.ended.is_set()

    run(main())


def test_closing_ends_what_is_under_way_and_what_waits() -> None:
    async def main() -> None:
        async with receiving(silence) as receiver, local_client(replace(LIMITS, max_concurrent=1)) as client:
            url = f"http://127.0.0.1:{receiver.port}/"
            posts = [asyncio.ensure_future(client.post(url, BODY, signed)) for _ in range(3)]
            await receiver.arrived.wait()
            await client.aclose()
            assert await asyncio.gather(*posts) == [STOPPED] * 3
            await asyncio.wait_for(receiver.ended.wait(), 5)
            assert await client.post(url, BODY, signed) == STOPPED

    run(main())


def test_a_caller_that_is_cancelled_takes_its_delivery_along() -> None:
    async def main() -> None:
        async with receiving(silence) as receiver, local_client() as client:
            post = asyncio.ensure_future(client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed))
            await receiver.arrived.wait()
            post.cancel()
            with pytest.raises(asyncio.CancelledError):
                await post
            await asyncio.wait_for(receiver.ended.wait(), 5)

    run(main())


def test_a_delivery_that_ended_badly_leaves_room_for_the_next() -> None:
    async def main() -> None:
        limits = replace(QUICK, max_concurrent=1)
        async with receiving(silence) as bad, receiving(answer()) as good, local_client(limits) as client:
            for _ in range(3):
                assert await client.post(f"http://127.0.0.1:{bad.port}/", BODY, signed) == TIMED_OUT
            assert (await client.post(f"http://127.0.0.1:{good.port}/", BODY, signed)).accepted

    run(main())


def test_a_failure_to_sign_is_the_callers() -> None:
    def broken(_body: bytes) -> str:
        raise LookupError("no key")

    async def main() -> None:
        async with receiving(answer()) as receiver, local_client() as client:
            with pytest.raises(LookupError):
                await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, broken)
            assert receiver.connections == 0

    run(main())
