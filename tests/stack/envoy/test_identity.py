"""Whose request it is: the server is told by Envoy, and by nobody else."""

from pathlib import Path

import httpx2
import pytest

from tests.kit.ports import free_port
from tests.stack.envoy.proxies import Proxy, running

SUBJECT = b"x-jwt-sub"


def told(proxy: Proxy) -> bytes | None:
    """Whose request the server was told that the last one was."""
    (request,) = proxy.asked()
    return request.headers.get(SUBJECT)


@pytest.mark.parametrize("subject", ["alice", "a b", "auth0|123", "zoë"])
def test_the_server_is_told_the_subject_of_the_token(proxy: Proxy, path: str, subject: str) -> None:
    httpx2.get(f"{proxy.url}{path}", headers={"Authorization": f"Bearer {proxy.token(sub=subject)}"})
    assert told(proxy) == subject.encode()


@pytest.mark.parametrize("name", ["X-JWT-Sub", "x-jwt-sub", "X-jwt-SUB"])
def test_what_a_client_says_of_itself_is_dropped(proxy: Proxy, client: httpx2.Client, path: str, name: str) -> None:
    client.get(path, headers={name: "admin"})
    assert told(proxy) == b"alice"


def test_what_it_says_twice_is_dropped(proxy: Proxy, path: str) -> None:
    lines = f"Authorization: Bearer {proxy.token()}\r\nX-JWT-Sub: admin\r\nX-Jwt-Sub: root\r\n"
    with proxy.wire() as wire:
        wire.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode()).read()
    assert told(proxy) == b"alice"


@pytest.mark.parametrize("name", ["X_JWT_Sub", "X-JWT_Sub", "X_JWT-Sub"])
def test_names_that_only_look_like_it_are_dropped(proxy: Proxy, client: httpx2.Client, path: str, name: str) -> None:
    client.get(path, headers={name: "admin"})
    (request,) = proxy.asked()
    assert b"admin" not in request.headers.values()


@pytest.mark.parametrize("name", ["X-JWT-Sub ", " X-JWT-Sub", "X-JWT-Sub\t", "X-JWT-Sub\x00"])
def test_names_with_something_around_them_are_refused_or_dropped(proxy: Proxy, path: str, name: str) -> None:
    with proxy.wire() as wire:
        lines = f"Host: x\r\nAuthorization: Bearer {proxy.token()}\r\n{name}: admin\r\n"
        wire.send(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()).read()
    assert b"admin" not in [value for request in proxy.asked() for value in request.headers.values()]


def test_a_token_without_a_subject_is_nobodys(proxy: Proxy, path: str) -> None:
    headers = {"Authorization": f"Bearer {proxy.token(sub=None)}", "X-JWT-Sub": "admin"}
    httpx2.get(f"{proxy.url}{path}", headers=headers)
    assert told(proxy) is None


def test_nobody_has_an_identity_where_no_token_is_needed(proxy: Proxy) -> None:
    httpx2.get(f"{proxy.url}/healthz", headers={"X-JWT-Sub": "admin"})
    assert told(proxy) is None


@pytest.mark.parametrize("subject", ["alice\r\nX-JWT-Sub: admin", "alice\nX-Other: admin", "alice\x00"])
def test_a_subject_with_a_line_end_is_no_second_header(proxy: Proxy, path: str, subject: str) -> None:
    httpx2.get(f"{proxy.url}{path}", headers={"Authorization": f"Bearer {proxy.token(sub=subject)}"})
    for request in proxy.asked():
        assert request.headers.get(SUBJECT) != b"admin"
        assert b"x-other" not in request.headers


@pytest.mark.parametrize(
    "subject", ["alice ", " alice", "alice\t", "\talice", " ", "", 5, ["alice"], {"sub": "alice"}, True]
)
def test_a_subject_that_a_header_would_change_is_refused(proxy: Proxy, path: str, subject: object) -> None:
    answer = httpx2.get(f"{proxy.url}{path}", headers={"Authorization": f"Bearer {proxy.token(sub=subject)}"})
    assert answer.status_code in {401, 403}
    assert not proxy.asked()


def test_another_header_for_the_identity_is_guarded_in_the_same_way(tmp_path: Path, proxy: Proxy, path: str) -> None:
    edge = proxy.edge._replace(port=free_port(), admin_port=free_port(), identity_header="X-User")
    with running(tmp_path, edge):
        headers = {"Authorization": f"Bearer {proxy.token()}", "X-User": "admin"}
        httpx2.get(f"{edge.url}{path}", headers=headers)
        httpx2.get(f"{edge.url}/healthz", headers=headers)
    assert [request.headers.get(b"x-user") for request in proxy.asked()] == [b"alice", None]


def test_the_last_address_that_is_told_is_not_the_clients_word(proxy: Proxy, client: httpx2.Client, path: str) -> None:
    client.get(path, headers={"X-Forwarded-For": "203.0.113.9"})
    (request,) = proxy.asked()
    first, last = request.headers[b"x-forwarded-for"].split(b",")
    assert (first, last.strip() == first) == (b"203.0.113.9", False)
