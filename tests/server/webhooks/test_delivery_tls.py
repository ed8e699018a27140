"""Delivering over TLS to names: the checked address is dialled, and the name is proved by its certificate (§12.8)."""

import asyncio
import ssl
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path

import pytest
from httpcore2 import SOCKET_OPTION, AsyncNetworkStream
from msgspec.structs import replace

from everbrook.server.webhooks.delivery import DeliveryLimits, DeliveryOutcome, WebhookClient
from tests.kit.certificates import Authority
from tests.server.webhooks.receivers import (
    LIMITS,
    NAME,
    OTHER_PUBLIC,
    PUBLIC,
    Internet,
    Names,
    Receiver,
    answer,
    receiving,
    run,
    signed,
)

URL = f"https://{NAME}/hooks"
OTHER_NAME = "other.example"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def client_of(authority: Authority, internet: Internet, names: Names, limits: DeliveryLimits = LIMITS) -> WebhookClient:
    return WebhookClient(
        limits, allow_loopback_http=True, resolver=names, tls=authority.client_context(), network=internet
    )


async def delivered(
    authority: Authority, certificate: ssl.SSLContext, url: str = URL
) -> tuple[DeliveryOutcome, Receiver]:
    async with receiving(answer(b'{"done":true}'), certificate) as receiver:
        internet = Internet({PUBLIC: receiver.port, "2606:4700::1": receiver.port})
        async with client_of(authority, internet, Names([PUBLIC])) as client:
            return await client.post(url, b"{}", signed), receiver


def test_a_receiver_that_proves_its_name_gets_the_webhook(authority: Authority) -> None:
    ended, receiver = run(delivered(authority, authority.server_context(NAME)))
    assert ended == DeliveryOutcome(200, done=True)
    assert receiver.headers["host"] == NAME


def test_the_name_is_told_while_connecting_and_not_the_address(authority: Authority) -> None:
    context, asked = authority.server_context(NAME), list[str | None]()
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    run(delivered(authority, context))
    assert asked == [NAME]


@pytest.mark.parametrize("host", [PUBLIC, "2606:4700::1"])
def test_an_address_can_be_proved_by_a_certificate_too(authority: Authority, host: str) -> None:
    url = f"https://[{host}]/" if ":" in host else f"https://{host}/"
    ended, _ = run(delivered(authority, authority.server_context(host), url))
    assert ended == DeliveryOutcome(200, done=True)


@pytest.mark.parametrize("hosts", [[OTHER_NAME], [PUBLIC], [f"sub.{NAME}"], ["*.worker.example"]])
def test_a_certificate_for_another_host_is_refused(authority: Authority, hosts: list[str]) -> None:
    ended, receiver = run(delivered(authority, authority.server_context(*hosts)))
    assert "certificate verify failed" in (ended.error or "")
    assert receiver.requests == []


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    ended, receiver = run(delivered(authority, Authority(tmp_path).server_context(NAME)))
    assert "certificate verify failed" in (ended.error or "")
    assert receiver.requests == []


def test_a_certificate_that_ran_out_is_refused(authority: Authority) -> None:
    ended, receiver = run(delivered(authority, authority.server_context(NAME, days=-1)))
    assert "certificate has expired" in (ended.error or "")
    assert receiver.requests == []


def test_a_receiver_without_tls_gets_nothing(authority: Authority) -> None:
    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            internet = Internet({PUBLIC: server.sockets[0].getsockname()[1]})
            async with client_of(authority, internet, Names([PUBLIC])) as client:
                assert "wrong version number" in ((await client.post(URL, b"{}", signed)).error or "")

    run(main())


def test_a_handshake_that_never_ends_is_left_after_the_time_allowed(authority: Authority) -> None:
    async def main() -> None:
        async with receiving(answer()) as silent:
            internet, limits = Internet({PUBLIC: silent.port}), replace(LIMITS, connect_timeout_secs=0.1)
            async with client_of(authority, internet, Names([PUBLIC]), limits) as client:
                ended = await client.post(URL, b"{}", signed)
            assert (ended.error or "").startswith("the delivery failed: ")
            await asyncio.wait_for(silent.ended.wait(), 5)

    run(main())


def test_the_address_that_was_checked_is_the_one_that_is_dialled(authority: Authority) -> None:
    """A name whose answer turns inside right after the check: there is no second lookup to fall for it."""

    async def main() -> None:
        async with receiving(answer(), authority.server_context(NAME)) as receiver:
            internet = Internet({PUBLIC: receiver.port, "127.0.0.1": receiver.port})
            names = Names([PUBLIC], ["127.0.0.1"])
            async with client_of(authority, internet, names) as client:
                assert (await client.post(URL, b"{}", signed)).accepted
            assert (internet.dialled, names.asked) == ([f"{PUBLIC}:443"], [f"{NAME}:443"])

    run(main())


def test_a_name_that_turned_inside_is_refused_at_the_next_connection(authority: Authority) -> None:
    async def main() -> None:
        closing = answer(headers=b"Connection: close\r\n")
        async with receiving(closing, authority.server_context(NAME)) as receiver:
            internet = Internet({PUBLIC: receiver.port, "10.0.0.1": receiver.port})
            async with client_of(authority, internet, Names([PUBLIC], ["10.0.0.1"])) as client:
                assert (await client.post(URL, b"{}", signed)).accepted
                refused = await client.post(URL, b"{}", signed)
            assert refused.error == f"webhook.url must lead to public addresses only; {NAME} has one that is private"
            assert internet.dialled == [f"{PUBLIC}:443"]

    run(main())


def test_a_connection_proved_for_one_name_is_not_used_for_another_at_the_same_address(authority: Authority) -> None:
    async def main() -> None:
        async with receiving(answer(), authority.server_context(NAME)) as receiver:
            internet = Internet({PUBLIC: receiver.port})
            async with client_of(authority, internet, Names([PUBLIC])) as client:
                assert (await client.post(URL, b"{}", signed)).accepted
                refused = await client.post(f"https://{OTHER_NAME}/hooks", b"{}", signed)
            assert "certificate verify failed" in (refused.error or "")
            assert len(receiver.requests) == 1

    run(main())


def test_an_address_that_does_not_answer_is_followed_by_the_next(authority: Authority) -> None:
    async def main() -> None:
        async with receiving(answer(), authority.server_context(NAME)) as receiver:
            internet = Internet({OTHER_PUBLIC: receiver.port})
            async with client_of(authority, internet, Names([PUBLIC, OTHER_PUBLIC])) as client:
                assert (await client.post(URL, b"{}", signed)).accepted
            assert internet.dialled == [f"{PUBLIC}:443", f"{OTHER_PUBLIC}:443"]

    run(main())


def test_when_no_address_answers_the_delivery_fails(authority: Authority) -> None:
    async def main() -> DeliveryOutcome:
        async with client_of(authority, Internet({}), Names([PUBLIC, OTHER_PUBLIC])) as client:
            return await client.post(URL, b"{}", signed)

    assert run(main()) == DeliveryOutcome(None, error="the delivery failed: nobody is there")


class Losing(Internet):
    """A network on which a connection has no socket any more when it is asked for its peer."""

    def __init__(self, ports: dict[str, int]) -> None:
        super().__init__(ports)
        self.lost: list[AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
        vars(stream)["get_extra_info"] = lambda _: attrgetter("getpeername")(None)
        self.lost.append(stream)
        return stream


def test_a_connection_that_is_lost_at_once_fails_the_delivery(authority: Authority) -> None:
    async def delivery() -> DeliveryOutcome:
        async with receiving(answer(b"{}")) as receiver:
            network = Losing({"127.0.0.1": receiver.port})
            async with client_of(authority, network, Names([])) as client:
                outcome = await client.post(f"http://127.0.0.1:{receiver.port}/", b"{}", signed)
            for stream in network.lost:
                await stream.aclose()
            return outcome

    outcome = run(delivery())
    assert outcome == DeliveryOutcome(None, error="the connection was lost as soon as it was made")
