"""Delivering: what a receiver gets, what its answer comes to, and what none can do to the server (§7.1, §12.8)."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from everbrook.server.webhooks.delivery import DeliveryOutcome, WebhookClient
from tests.server.webhooks.receivers import (
    LIMITS,
    NAME,
    OTHER_PUBLIC,
    PUBLIC,
    Names,
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


def sending(chunk: bytes, *, pause_secs: float = 0.0, head: bytes = b"") -> object:
    """Behave by sending a chunk over and over, until the client is gone."""

    async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(pause_secs)

    return behave


def test_the_body_arrives_signed_as_json() -> None:
    async def main() -> None:
        async with receiving(answer()) as receiver, local_client() as client:
            assert await client.post(f"http://127.0.0.1:{receiver.port}/hooks?a=1", BODY, signed) == DeliveryOutcome(
                200
            )
            request = receiver.requests[0]
            assert request.startswith(b"POST /hooks?a=1 HTTP/1.1\r\n")
            assert request.endswith(b"\r\n\r\n" + BODY)
            assert receiver.headers == {
                "host": f"127.0.0.1:{receiver.port}",
                "user-agent": "everbrook",
                "accept": "application/json",
                "accept-encoding": "identity",
                "content-type": "application/json",
                "content-length": str(len(BODY)),
                "webhook-signature": "t=1,kid=k,ed25519=s",
            }

    run(main())


@pytest.mark.parametrize(
    "text, done",
    [
        (b'{"done":true}', True),
        (b' {"done" : true, "more": {"a": [1]}} ', True),
        (b'{"done":false}', False),
        (b"{}", False),
        (b"", False),
        (b"done", False),
        (b"[true]", False),
        (b'{"done":1}', False),
        (b'{"done":"true"}', False),
        (b'{"done":true', False),
        (b'{"done":true}{', False),
        (b'{"more":' + b"[" * 511 + b"]" * 511 + b',"done":true}', True),
        (b'{"more":' + b"[" * 512 + b"]" * 512 + b',"done":true}', False),
        (b'{"more":' + b"[" * 5000 + b"]" * 5000 + b',"done":true}', False),
        (b'{"\xff":1,"done":true', False),
    ],
)
def test_a_receiver_says_that_it_is_done_with_a_json_object_and_true(text: bytes, done: bool) -> None:  # noqa: FBT001
    """§7.1."""

    async def main() -> DeliveryOutcome:
        async with receiving(answer(text)) as receiver, local_client() as client:
            return await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)

    assert run(main()) == DeliveryOutcome(200, done)


@pytest.mark.parametrize("status", [b"400 Bad", b"404 Not", b"409 No", b"429 Slow", b"500 Oh", b"503 No"])
def test_an_error_of_the_receiver_is_no_success_whatever_its_body_says(status: bytes) -> None:
    async def main() -> DeliveryOutcome:
        async with receiving(answer(b'{"done":true}', status)) as receiver, local_client() as client:
            return await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)

    number = int(status[:3])
    assert run(main()) == DeliveryOutcome(number, error=f"the receiver responded with {number}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    """§12.8: a receiver that passed the guard could name one that does not."""

    async def main() -> None:
        async with receiving(answer()) as inside, local_client() as client:
            location = b"Location: http://127.0.0.1:%d/\r\n" % inside.port
            async with receiving(answer(b"", b"%d Moved" % status, location)) as receiver:
                ended = await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)
            assert ended == DeliveryOutcome(
                status, error=f"the receiver responded with {status}; redirects are not followed"
            )
            assert inside.connections == 0

    run(main())


def test_the_environment_names_no_proxy_for_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with receiving(answer()) as receiver, receiving(answer()) as proxy, local_client() as client:
            for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            assert (await client.post(f"http://localhost:{receiver.port}/", BODY, signed)).accepted
            assert proxy.connections == 0

    run(main())


def test_a_cookie_is_not_given_back() -> None:
    async def main() -> None:
        cookie = answer(headers=b"Set-Cookie: a=1; Path=/\r\n")
        async with receiving(cookie) as receiver, local_client() as client:
            for _ in range(2):
                await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)
            assert "cookie" not in receiver.headers

    run(main())


def test_a_connection_serves_one_delivery_after_the_other() -> None:
    async def main() -> None:
        async with receiving(answer(b'{"done":true}')) as receiver, local_client() as client:
            for _ in range(5):
                assert (await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)).done
            assert (len(receiver.requests), receiver.connections) == (5, 1)

    run(main())


def test_localhost_is_found_on_ipv6_too() -> None:
    async def main() -> None:
        async with receiving(answer(), host="::1") as receiver, local_client() as client:
            assert (await client.post(f"http://localhost:{receiver.port}/", BODY, signed)).accepted
            assert (await client.post(f"http://[::1]:{receiver.port}/", BODY, signed)).accepted
            assert receiver.headers["host"] == f"[::1]:{receiver.port}"

    run(main())


@pytest.mark.timing
@pytest.mark.parametrize(
    "behave",
    [
        silence,
        sending(b"HTTP/1.1 100 Continue\r\n\r\n", pause_secs=0.001),
        sending(b"X-More: 1\r\n", pause_secs=0.01, head=b"HTTP/1.1 200 OK\r\n"),
        sending(b"{", pause_secs=0.01, head=b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"),
        sending(b"1\r\n \r\n", pause_secs=0.01, head=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ],
    ids=["silence", "endless-informational", "endless-headers", "dripping-body", "dripping-chunks"],
)
def test_a_receiver_that_never_ends_is_left_after_the_time_allowed(behave: object) -> None:
    async def main() -> None:
        async with receiving(behave) as receiver, local_client(QUICK) as client:  # type: ignore[arg-type]
            began = time.monotonic()
            assert await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed) == TIMED_OUT
            assert time.monotonic() - began < 5
            await asyncio.wait_for(receiver.ended.wait(), 5)

    run(main())


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 1000000000000\r\n\r\n", b"\r\n"],
    ids=["announced", "until-closed"],
)
def test_of_a_huge_answer_no_more_than_allowed_is_read(head: bytes) -> None:
    behave = sending(b" " * 65536, head=b"HTTP/1.1 200 OK\r\n" + head)

    async def main() -> None:
        async with receiving(behave) as receiver, local_client() as client:  # type: ignore[arg-type]
            assert await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed) == DeliveryOutcome(200)
            await asyncio.wait_for(receiver.ended.wait(), 5)

    run(main())


def test_an_answer_as_large_as_allowed_is_read_and_a_larger_one_is_not() -> None:
    async def main() -> None:
        for size, done in ((LIMITS.max_response_bytes, True), (LIMITS.max_response_bytes + 1, False)):
            async with receiving(answer(b'{"done":true}'.ljust(size))) as receiver, local_client() as client:
                assert await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed) == DeliveryOutcome(
                    200, done
                )

    run(main())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000,
        b"\x00" * 1000,
    ],
)
def test_an_answer_that_breaks_off_or_is_no_http_is_a_failure(sent: bytes) -> None:
    async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    async def main() -> DeliveryOutcome:
        async with receiving(behave) as receiver, local_client() as client:
            return await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)

    ended = run(main())
    assert (ended.status, ended.done) == (None, False)
    assert ended.error is not None
    assert ended.error.startswith("the delivery failed: ")
    assert ended.error.isprintable()


def test_switching_protocols_is_no_success() -> None:
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

    async def main() -> DeliveryOutcome:
        async with receiving(upgrade) as receiver, local_client() as client:
            return await client.post(f"http://127.0.0.1:{receiver.port}/", BODY, signed)

    assert not run(main()).accepted


def test_a_port_where_nobody_listens_is_a_failure() -> None:
    async def main() -> DeliveryOutcome:
        async with receiving(answer()) as receiver:
            port = receiver.port
        async with local_client() as client:
            return await client.post(f"http://127.0.0.1:{port}/", BODY, signed)

    assert (run(main()).error or "").startswith("the delivery failed: ")


@pytest.mark.parametrize("url", ["https://10.0.0.1/", "http://worker.example/", "https://2130706433/", "nonsense", ""])
def test_a_url_that_the_guard_refuses_is_a_failure_with_its_reason(url: str) -> None:
    async def main() -> DeliveryOutcome:
        async with local_client() as client:
            return await client.post(url, BODY, signed)

    assert (run(main()).error or "").startswith("webhook.url ")


def test_loopback_is_refused_where_the_setting_does_not_allow_it() -> None:
    async def main() -> None:
        async with receiving(answer()) as receiver, WebhookClient(LIMITS, allow_loopback_http=False) as client:
            for host in ("127.0.0.1", "localhost", "[::1]"):
                assert not (await client.post(f"http://{host}:{receiver.port}/", BODY, signed)).accepted
            assert receiver.connections == 0

    run(main())


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["::1"], [PUBLIC, "127.0.0.1"], ["::ffff:127.0.0.1", PUBLIC]])
def test_a_name_that_leads_inside_is_not_connected_to(addresses: list[str]) -> None:
    async def main() -> None:
        async with (
            receiving(answer()) as receiver,
            WebhookClient(LIMITS, allow_loopback_http=True, resolver=Names(addresses)) as client,
        ):
            ended = await client.post(f"https://{NAME}:{receiver.port}/", BODY, signed)
            assert ended.error == f"webhook.url must lead to public addresses only; {NAME} has one that is loopback"
            assert receiver.connections == 0

    run(main())


def test_a_name_that_is_never_answered_is_left_after_the_time_allowed() -> None:
    async def never(_name: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        return [OTHER_PUBLIC]

    async def main() -> DeliveryOutcome:
        limits = replace(LIMITS, connect_timeout_secs=0.05)
        async with WebhookClient(limits, allow_loopback_http=False, resolver=never) as client:
            return await client.post(f"https://{NAME}/", BODY, signed)

    assert run(main()).error == "the delivery failed: no connection within 0.05 s"


def test_a_name_without_an_address_is_a_failure() -> None:
    async def main() -> DeliveryOutcome:
        names = Names(OSError("Name or service not known"))
        async with WebhookClient(LIMITS, allow_loopback_http=False, resolver=names) as client:
            return await client.post(f"https://{NAME}/", BODY, signed)

    assert run(main()).error == "the delivery failed: Name or service not known"
