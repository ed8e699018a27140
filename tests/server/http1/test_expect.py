"""Expect: 100-continue."""

from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire


def test_a_client_that_waits_is_asked_for_its_body(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, content_type="text/plain", content_length="5", expect="100-continue")
    assert wire.read().status == 100
    assert wire.send(b"hello").read().status == 204


def test_the_expectation_is_read_in_any_case(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, content_type="text/plain", content_length="5", expect="100-Continue")
    assert wire.read().status == 100


def test_a_body_that_is_too_large_is_not_asked_for(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_append_bytes=10))
    wire.ask("POST", path, content_type="text/plain", content_length="11", expect="100-continue")
    assert wire.read().refusal == (413, "payload_too_large")
    assert wire.ended()


def test_an_unknown_expectation_is_refused(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_type="text/plain", content_length="5", expect="200-ok")
    assert wire.read().status in {400, 417}


def test_an_http_1_0_client_is_never_told_to_continue(wire: Wire, path: str) -> None:
    """RFC 9110 §10.1.1: it would take the interim answer for the answer."""
    wire.create(path)
    head = f"POST {path} HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
    assert wire.send(head.encode() + b"a").read().status == 204


def test_the_question_never_overtakes_an_answer(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    wire.ask("POST", path, content_type="text/plain", content_length="1", expect="100-continue")
    assert wire.nothing_for(0.05)
    wire.send(b"b")
    connect().append(path, b"a")
    assert [wire.read().status, wire.read().status] == [200, 204]
