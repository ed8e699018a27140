"""Plain HTTP over the standard library: kept connections, bodies as they arrive, and errors in the words of httpx2."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from everbrook.cli.plain_http import PlainTransport
from tests.cli.test_commands import modules_of

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def server(*connections: list[bytes]) -> Iterator[str]:
    """A server that answers each request of each connection with the next bytes, then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answers in connections:
                accepted, _ = listener.accept()
                with accepted:
                    for answer in answers:
                        if not accepted.recv(65536):
                            break
                        accepted.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(10)


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(transport=PlainTransport(), timeout=0.5) as client:
        yield client


def test_a_connection_is_used_again(client: httpx2.Client) -> None:
    with server([OK, OK]) as url:
        assert [client.get(url).text, client.post(url, content=b"x").text] == ["ok", "ok"]


def test_a_connection_that_the_server_closed_is_not_used_again(client: httpx2.Client) -> None:
    with server([OK], [OK]) as url:
        first = client.get(url).text
        threading.Event().wait(0.2)
        assert (first, client.get(url).text) == ("ok", "ok")


def test_an_answer_that_was_not_read_is_no_reason_to_wait(client: httpx2.Client) -> None:
    with server([OK], [OK]) as url:
        with client.stream("GET", url):
            pass
        assert client.get(url).text == "ok"


def test_a_body_is_given_as_it_arrives(client: httpx2.Client) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    with server([chunked]) as url, client.stream("GET", url) as response:
        assert next(response.iter_bytes()) == b"one"


@pytest.mark.parametrize(
    "answer, error",
    [
        (b"", httpx2.RemoteProtocolError),
        (b"nonsense\r\n\r\n", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\no", httpx2.RemoteProtocolError),
    ],
)
def test_an_answer_that_is_cut_off_or_none_is_an_error(
    client: httpx2.Client, answer: bytes, error: type[Exception]
) -> None:
    with server([answer]) as url, pytest.raises(error):
        client.get(url)


def test_a_server_that_says_nothing_is_a_timeout(client: httpx2.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(httpx2.ReadTimeout):
        client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/")


def test_a_port_where_nobody_listens_is_a_connect_error(client: httpx2.Client) -> None:
    with pytest.raises(httpx2.ConnectError):
        client.get("http://127.0.0.1:1/")


def test_https_is_never_sent_in_the_clear(client: httpx2.Client) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                seen.append(accepted.recv(65536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(httpx2.TransportError):
            client.get(f"https://127.0.0.1:{listener.getsockname()[1]}/secret")
        thread.join(10)
    assert seen[0][:1] == b"\x16"  # a TLS handshake


@pytest.mark.parametrize("heavy", ["httpcore2", "anyio", "h11", "truststore"])
def test_a_command_does_not_load_the_other_transport(heavy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    assert heavy not in modules_of("head", "s", "--url", "http://127.0.0.1:1")
