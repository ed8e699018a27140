"""How the parts of a stack reach each other."""

import pytest

from everbrook.stack.site import around_proxies, server_url


@pytest.mark.parametrize(
    "host, url",
    [
        ("127.0.0.1", "http://127.0.0.1:4437"),
        ("0.0.0.0", "http://127.0.0.1:4437"),  # noqa: S104 - what somebody may ask for
        ("::", "http://[::1]:4437"),
        ("fd00::7", "http://[fd00::7]:4437"),
        ("streams.local", "http://streams.local:4437"),
    ],
)
def test_a_server_is_reached_where_it_listens(host: str, url: str) -> None:
    assert server_url(host, 4437) == url


def test_nothing_for_this_machine_goes_to_a_proxy() -> None:
    assert around_proxies({"NO_PROXY": "example.org,localhost"}) == {
        "no_proxy": "example.org,localhost,127.0.0.1,::1",
        "NO_PROXY": "example.org,localhost,127.0.0.1,::1",
    }
