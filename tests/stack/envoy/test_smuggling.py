"""What Envoy lets through is what the server serves: nothing is read in two ways on the way."""

import contextlib
import socket

import httpx2
import pytest

from tests.stack.envoy.proxies import Proxy


def paths_asked(proxy: Proxy) -> list[bytes]:
    return [request.path for request in proxy.asked()]


def send(proxy: Proxy, text: bytes) -> bytes:
    """Send bytes, and give everything that comes back until the connection ends or is silent."""
    received = b""
    with socket.create_connection(("127.0.0.1", proxy.edge.port), timeout=SILENCE_SECS) as wire:
        wire.sendall(text)
        with contextlib.suppress(OSError):
            while piece := wire.recv(65536):
                received += piece
    return received


SILENCE_SECS = 0.3
SECRET = b"/v1/stream/secret"
HIDDEN = b"GET /v1/stream/secret HTTP/1.1\r\nHost: x\r\nX-JWT-Sub: admin\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: identity, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding:\tchunked\r\nContent-Length: 0\r\n",
        b"Transfer_Encoding: chunked\r\n",
        b"Content-Length: 0\r\nContent-Length: 40\r\n",
        b"Content-Length: +0\r\n",
        b"Content-Length: 0, 0\r\n",
        b"Content-Length: 0x0\r\n",
    ],
)
def test_a_second_request_is_never_hidden_in_the_first(proxy: Proxy, lines: bytes) -> None:
    """The open one would carry one that needs a token, or the other way round."""
    send(proxy, b"POST /healthz HTTP/1.1\r\nHost: x\r\n%b\r\n0\r\n\r\n%b" % (lines, HIDDEN))
    assert SECRET not in paths_asked(proxy)


def test_a_second_request_needs_a_token_of_its_own(proxy: Proxy) -> None:
    first = f"GET /v1/stream/first HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {proxy.token()}\r\n\r\n".encode()
    answers = send(proxy, first + HIDDEN)
    assert (paths_asked(proxy), b"401 Unauthorized" in answers) == ([b"/v1/stream/first"], True)


@pytest.mark.parametrize(
    "target",
    [
        b"/healthz/../v1/stream/secret",
        b"/healthz/%2e%2e/v1/stream/secret",
        b"/healthz%2f..%2fv1/stream/secret",
        b"/healthz/..;/v1/stream/secret",
        b"/healthz;/../v1/stream/secret",
        b"/ui/../v1/stream/secret",
        b"/ui/..%2fv1/stream/secret",
        b"/ui/%2e%2e/v1/stream/secret",
        b"/ui/..\\v1\\stream\\secret",
        b"//v1/stream/secret",
        b"/./v1/stream/secret",
        b"/v1//stream/secret",
        b"/v1/stream/%73ecret",
        b"/%76%31/stream/secret",
        b"/V1/stream/secret",
        b"/v1/stream/__ds/jwks.json/../../secret",
        b"/v1/stream/__ds/subscriptions/../ack/../../secret",
        b"/v1/stream/__ds/subscriptions/x%2f..%2f..%2f..%2fsecret/ack",
        b"/v1/stream/secret?/healthz",
        b"/v1/stream/secret#/healthz",
        b"/v1/stream/secret%3f/healthz",
        b"/v1/stream/secret%00/healthz",
        b"http://x/v1/stream/secret",
        b"http://x/healthz/../v1/stream/secret",
        b"HTTP://127.0.0.1/v1/stream/secret",
        b"*",
        b"v1/stream/secret",
    ],
)
def test_no_path_leads_to_a_stream_without_a_token(proxy: Proxy, target: bytes) -> None:
    with proxy.client() as client:
        client.put("/v1/stream/secret", headers={"Content-Type": "text/plain"}, content=b"the secret")
    proxy.asked()
    answer = send(proxy, b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % target)
    assert b"the secret" not in answer


@pytest.mark.parametrize("target", ["a/../b", "a%2Fb", "a//b", "a/./b", "a%5cb", "%61", "a%252fb", "a;b=c", "a+b"])
def test_a_path_reaches_the_server_as_it_was_sent(proxy: Proxy, target: str) -> None:
    token = proxy.token().encode()
    send(
        proxy,
        b"GET /v1/stream/%b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nConnection: close\r\n\r\n"
        % (target.encode(), token),
    )
    assert paths_asked(proxy) == [b"/v1/stream/" + target.encode()]


@pytest.mark.parametrize("hosts", [b"", b"Host: a b\r\n", b"Host: a\r\n X: b\r\n"])
def test_a_host_that_can_be_read_in_two_ways_is_refused(proxy: Proxy, hosts: bytes) -> None:
    answer = send(proxy, b"GET /healthz HTTP/1.1\r\n%bConnection: close\r\n\r\n" % hosts)
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert proxy.asked() == []


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "X-Envoy-Original-Path"])
def test_no_header_leads_elsewhere(proxy: Proxy, name: str) -> None:
    httpx2.get(f"{proxy.url}/healthz", headers={name: "/v1/stream/secret"})
    assert [(request.method, request.path) for request in proxy.asked()] == [(b"GET", b"/healthz")]


def test_an_offer_to_speak_something_else_is_not_taken(proxy: Proxy) -> None:
    lines = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    answer = send(proxy, b"GET /healthz HTTP/1.1\r\nHost: x\r\n%b\r\n" % lines)
    assert b"101 Switching" not in answer


def test_a_connection_header_does_not_take_the_identity_away(proxy: Proxy, path: str) -> None:
    """A header that it names would be dropped on the way, were it not the proxy's own."""
    lines = f"Authorization: Bearer {proxy.token()}\r\nConnection: close, X-JWT-Sub, Authorization\r\n"
    send(proxy, f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
    assert all(request.headers.get(b"x-jwt-sub") == b"alice" for request in proxy.asked())
