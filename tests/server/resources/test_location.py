"""Where a new stream says it is."""

import pytest

from tests.kit.server_thread import RunningServer
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire


def test_location_is_the_url_that_was_asked_for(server: RunningServer, wire: Wire, path: str) -> None:
    assert wire.create(path).headers["location"] == f"{server.origin}{path}"


def test_location_follows_the_host_header(wire: Wire, path: str) -> None:
    assert wire.create(path, host="streams.example:8080").headers["location"] == f"http://streams.example:8080{path}"


@pytest.mark.parametrize("public_url", ["https://streams.example", "https://example.com/ds"])
def test_location_begins_with_the_public_url(start: Start, connect: Connect, path: str, public_url: str) -> None:
    wire = connect(start(server__public_url=public_url))
    assert wire.create(path, host="inside:4437").headers["location"] == f"{public_url}{path}"


def test_location_keeps_the_spelling_of_the_path(server: RunningServer, wire: Wire, path: str) -> None:
    assert wire.create(f"{path}/caf%C3%A9%20a").headers["location"] == f"{server.origin}{path}/caf%C3%A9%20a"


def test_location_has_no_query(server: RunningServer, wire: Wire, path: str) -> None:
    assert wire.create(f"{path}?a=b").headers["location"] == f"{server.origin}{path}"


def test_a_stream_that_was_there_has_no_location(wire: Wire, path: str) -> None:
    wire.create(path)
    assert "location" not in wire.request("PUT", path, content_type="text/plain").headers


def test_http_1_0_without_a_host_still_gets_a_location(wire: Wire, path: str) -> None:
    assert wire.send(f"PUT {path} HTTP/1.0\r\n\r\n".encode()).read().headers["location"].endswith(path)
