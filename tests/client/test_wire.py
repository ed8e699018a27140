"""A wire of one's own in place of httpx2: requests go through it, and it stays its owner's."""

from collections.abc import Iterator

import pytest

from everbrook import Client, Retry, Unreachable
from everbrook.client import NotConnected, Request
from everbrook.client._sync.wire import Response, Wire


class Told(Response):
    """An answer that is made up."""

    status_code = 200
    headers = {"Stream-Next-Offset": "7", "Content-Type": "text/plain", "Stream-Up-To-Date": "true"}  # noqa: RUF012

    def iter_bytes(self) -> Iterator[bytes]:
        yield from (b"he", b"llo")

    def close(self) -> None:
        pass

    def interrupt(self) -> None:
        pass


class Recorded(Wire):
    """Answers everything alike, or nothing, and keeps what it was asked."""

    def __init__(self, *, reachable: bool = True) -> None:
        self.asked: list[Request] = []
        self.closed = False
        self._reachable = reachable

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        if not self._reachable:
            raise NotConnected("nobody there")
        return Told()

    def close(self) -> None:
        self.closed = True


def test_a_client_sends_through_the_wire_that_it_is_given_and_leaves_it_open() -> None:
    wire = Recorded()
    with Client("http://host", token="t", http=wire) as client:  # noqa: S106 - a token for nobody
        assert client.stream("s").read().text() == "hello"
    (request,) = wire.asked
    assert (str(request), request.headers["Authorization"]) == ("GET http://host/v1/stream/s", "Bearer t")
    assert not wire.closed


def test_a_request_is_tried_again_over_any_wire() -> None:
    wire = Recorded(reachable=False)
    retry = Retry(max_attempts=3, first_delay_secs=0.001, max_delay_secs=0.001)
    with Client("http://host", http=wire, retry=retry) as client, pytest.raises(Unreachable, match="nobody there"):
        client.stream("s").head()
    assert len(wire.asked) == 3
