"""The machine itself is known by its addresses and one name; whatever only looks like it leads elsewhere."""

import pytest

from everbrook.settings.loopback import host_of, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::1%lo", "::ffff:127.0.0.1", "localhost", "LocalHost"])
def test_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "a.localhost",
        "localhost.evil.example",
        "127.0.0.1%evil.example",
        "2130706433",
    ],
)
def test_others_are_not_taken_for_it(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "place, host",
    [
        ("127.0.0.1:4437", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("localhost", "localhost"),
        ("a@127.0.0.1", ""),
        ("[::1].evil.example", ""),
        ("evil.example, localhost", ""),
        ("127.0.0.1/evil", ""),
        ("localhost:x", ""),
        ("[", ""),
    ],
)
def test_only_a_host_and_a_port_are_a_place(place: str, host: str) -> None:
    assert host_of(place) == host
