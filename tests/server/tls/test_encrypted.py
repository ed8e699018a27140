"""https: what it changes, and what it must not."""

import http.client
import socket
import ssl
import threading
import time
import warnings

import pytest

from everbrook.server.tuning import EncryptionTuning, ListenerTuning, ServerTuning
from tests.kit.certificates import Authority, Pair, connected
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Start

HOST = "127.0.0.1"


def request(wire: ssl.SSLSocket, line: str, body: bytes = b"") -> http.client.HTTPResponse:
    kind = "Content-Type: text/plain\r\n"
    head = f"{line} HTTP/1.1\r\nHost: streams.example\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
    wire.sendall(head.encode() + body)
    answer = http.client.HTTPResponse(wire)
    answer.begin()
    return answer


def handshakes(server: RunningServer) -> int:
    """How many connections are not encrypted yet."""
    return server.call(lambda: server.listener.handshakes)


def test_the_location_of_a_stream_is_https(encrypted: RunningServer, authority: Authority) -> None:
    with connected(encrypted.address, authority.client_context()) as wire:
        answer = request(wire, "PUT /v1/stream/x")
    assert answer.getheader("Location") == "https://streams.example/v1/stream/x"


def test_requests_follow_each_other_over_one_connection(encrypted: RunningServer, authority: Authority) -> None:
    with connected(encrypted.address, authority.client_context()) as wire:
        request(wire, "PUT /v1/stream/x").read()
        request(wire, "POST /v1/stream/x", b"hello").read()
        assert request(wire, "GET /v1/stream/x").read() == b"hello"


def test_a_large_body_comes_and_goes_whole(encrypted: RunningServer, authority: Authority) -> None:
    body = bytes(range(256)) * 20_000
    with connected(encrypted.address, authority.client_context()) as wire:
        request(wire, "PUT /v1/stream/x").read()
        request(wire, "POST /v1/stream/x", body).read()
        first = request(wire, "GET /v1/stream/x?offset=-1").read()
        second = request(wire, f"GET /v1/stream/x?offset={len(first):016}").read()
    assert first + second == body[: len(first) + len(second)]
    assert len(first) > 256_000


def test_a_follower_gets_what_is_appended(encrypted: RunningServer, authority: Authority) -> None:
    context = authority.client_context()
    with connected(encrypted.address, context) as reader, connected(encrypted.address, context) as writer:
        request(writer, "PUT /v1/stream/x").read()
        events = request(reader, "GET /v1/stream/x?offset=-1&live=sse")
        request(writer, "POST /v1/stream/x", b"hello").read()
        assert any(b"hello" in line for line in iter(events.readline, b""))


def test_plain_http_gets_no_answer(encrypted: RunningServer) -> None:
    with socket.create_connection(encrypted.address, timeout=10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: plain.recv(4096), b""))
    assert b"HTTP/" not in answer


def test_a_request_that_is_refused_is_told_so_and_its_connection_ends_properly(
    encrypted: RunningServer, authority: Authority
) -> None:
    with connected(encrypted.address, authority.client_context()) as wire:
        wire.sendall(b"THIS IS NOT HTTP\r\n\r\n")
        answer = b"".join(iter(lambda: wire.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_client_that_takes_leave_is_forgotten(encrypted: RunningServer, authority: Authority) -> None:
    with connected(encrypted.address, authority.client_context()) as wire:
        request(wire, "PUT /v1/stream/x").read()
        wire.sendall(b"GET /v1/stream/x?live=long-poll&offset=now HTTP/1.1\r\nHost: x\r\n\r\n")
        assert eventually(lambda: encrypted.waiting("/v1/stream/x") == 1)
        wire.unwrap().close()
    assert eventually(lambda: not encrypted.connections)


@pytest.mark.parametrize("oldest, spoken", [("1.2", ssl.TLSVersion.TLSv1_1), ("1.3", ssl.TLSVersion.TLSv1_2)])
def test_a_version_that_is_too_old_is_refused(
    start: Start, pair: Pair, authority: Authority, oldest: str, spoken: ssl.TLSVersion
) -> None:
    server = start(tls__cert_path=str(pair.cert), tls__key_path=str(pair.key), tls__min_version=oldest)
    context = authority.client_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = context.maximum_version = spoken
    with pytest.raises(ssl.SSLError):
        connected(server.address, context)


def test_the_oldest_version_that_is_allowed_is_spoken(encrypted: RunningServer, authority: Authority) -> None:
    context = authority.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connected(encrypted.address, context) as wire:
        assert (wire.version(), request(wire, "GET /healthz").read()) == ("TLSv1.2", b"ok")


def test_http_1_1_is_what_is_agreed_on(encrypted: RunningServer, authority: Authority) -> None:
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with connected(encrypted.address, context) as wire:
        assert wire.selected_alpn_protocol() == "http/1.1"


@pytest.mark.timing
def test_who_does_not_begin_to_encrypt_is_dropped_in_time(start: Start, pair: Pair) -> None:
    server = start(tls__cert_path=str(pair.cert), tls__key_path=str(pair.key), tls__handshake_timeout_secs=0.2)
    began = time.monotonic()
    with socket.create_connection(server.address, timeout=10) as plain:
        assert plain.recv(1) == b""
    assert time.monotonic() - began < 5


def test_who_holds_connections_open_does_not_keep_others_out(start: Start, pair: Pair, authority: Authority) -> None:
    tuning = ServerTuning(listener=ListenerTuning(encryption=EncryptionTuning(min_handshakes=8)))
    files = {"tls__cert_path": str(pair.cert), "tls__key_path": str(pair.key)}
    server = start(tuning=tuning, **files, limits__max_connections=10)
    silent = [socket.create_connection(server.address, timeout=10) for _ in range(50)]
    with connected(server.address, authority.client_context()) as wire:
        assert request(wire, "GET /healthz").read() == b"ok"
    assert handshakes(server) <= 10
    for one in silent:
        one.close()


def test_a_stop_does_not_wait_for_handshakes(start: Start, pair: Pair) -> None:
    server = start(tls__cert_path=str(pair.cert), tls__key_path=str(pair.key))
    with socket.create_connection(server.address, timeout=10) as silent:
        assert eventually(lambda: handshakes(server) == 1)
        server.stop()
        assert silent.recv(1) == b""


def test_many_clients_at_once_are_all_served(encrypted: RunningServer, authority: Authority) -> None:
    context, answers = authority.client_context(), []

    def ask() -> None:
        with connected(encrypted.address, context) as wire:
            answers.append([request(wire, "GET /healthz").read() for _ in range(5)])

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[b"ok"] * 5] * 20
