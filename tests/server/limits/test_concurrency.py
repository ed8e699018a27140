"""What one address may hold open unless the settings say otherwise."""

import pytest

from everbrook.protocol.errors import TooManyRequests
from everbrook.server.auth.proxies import Proxies
from everbrook.server.limits.concurrency import ConcurrencyLimits
from everbrook.settings import LimitSettings
from everbrook.settings.sections.limits import ADDRESS_CONNECTIONS

TRUSTING = Proxies("198.51.100.0/24", "X-JWT-Sub")


def concurrency(most: int | None = None) -> ConcurrencyLimits:
    return ConcurrencyLimits(LimitSettings(max_connections_per_address=most), TRUSTING)


def open_some(held: ConcurrencyLimits, address: str, count: int) -> None:
    for _ in range(count):
        held.open(address)


@pytest.mark.parametrize("address", ["203.0.113.1", "2001:db8::1"])
def test_an_address_has_a_bound_by_default(address: str) -> None:
    held = concurrency()
    open_some(held, address, ADDRESS_CONNECTIONS)
    with pytest.raises(TooManyRequests, match="max_connections_per_address"):
        held.open(address)
    held.open("203.0.113.2")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "198.51.100.7"])
def test_loopback_and_trusted_proxies_have_none(address: str) -> None:
    open_some(concurrency(), address, ADDRESS_CONNECTIONS + 1)


def test_a_bound_that_is_set_holds_for_loopback_too() -> None:
    held = concurrency(1)
    held.open("127.0.0.1")
    with pytest.raises(TooManyRequests):
        held.open("127.0.0.1")


def test_the_bound_can_be_put_off() -> None:
    open_some(concurrency(0), "203.0.113.1", ADDRESS_CONNECTIONS + 1)
