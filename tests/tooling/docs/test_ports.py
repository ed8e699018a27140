"""Ports that pages name become free ones, and only where they are ports."""

import socket
from random import Random

import pytest

from tests.tooling.docs.ports import Ports

PORTS = Ports(Random(7))


@pytest.mark.parametrize(
    "before", ["http://127.0.0.1:", "http://localhost:", "serve --port ", "DS_SERVER__PORT=", "port = "]
)
def test_a_published_port_becomes_a_free_one(before: str) -> None:
    assert PORTS.map(f"{before}4437/x") == f"{before}{PORTS['4437']}/x"


@pytest.mark.parametrize("code", ["range(8000)", "127.0.0.1:80001", "http://example.com:8000", "--port 9", "4437"])
def test_other_numbers_stay(code: str) -> None:
    assert PORTS.map(code) == code


def test_what_is_printed_has_the_published_port_again() -> None:
    printed = f"listens on http://127.0.0.1:{PORTS['8080']}, port {PORTS['4437']}\n"
    assert PORTS.unmap(printed) == "listens on http://127.0.0.1:8080, port 4437\n"


def test_a_port_that_is_in_use_is_not_taken() -> None:
    first = Ports(Random(1))
    with socket.create_server(("127.0.0.1", int(first["4437"]))):
        assert Ports(Random(1))["4437"] != first["4437"]
