"""A request is known by one id: in its answer, in what is logged of it, and in what went wrong."""

import logging

import pytest

from everbrook.server.exchange import Request
from everbrook.server.observe.access_log import MAX_ID_CHARACTERS, request_id
from everbrook.settings import RequestLog
from tests.kit.server_thread import GatedStorage
from tests.kit.servers import Connect, Start, StartEither


def test_an_id_that_the_client_sent_is_in_the_answer(start_either: StartEither, connect: Connect, path: str) -> None:
    wire = connect(start_either())
    assert wire.create(path, x_request_id="job-7.step:1").headers["x-request-id"] == "job-7.step:1"
    assert wire.get("/v1/stream/none", x_request_id="again").headers["x-request-id"] == "again"


def test_nobody_is_told_an_id_who_did_not_ask_for_one(start_either: StartEither, connect: Connect, path: str) -> None:
    assert "x-request-id" not in connect(start_either()).create(path).headers


@pytest.mark.parametrize(
    "sent", [b"two words", b"a\tb", b"caf\xc3\xa9", b"x" * (MAX_ID_CHARACTERS + 1), b'"', b"a, b", b""]
)
def test_an_id_that_could_do_harm_is_replaced(sent: bytes) -> None:
    request = Request(b"GET", b"/", b"", {b"x-request-id": sent}, b"")
    made = request_id(request)
    assert (made.isalnum(), len(made), request_id(request)) == (True, 16, made)


def test_where_requests_are_logged_every_answer_tells_its_id(
    start_either: StartEither, connect: Connect, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire = connect(start_either(log__requests=RequestLog.ALL))
    with caplog.at_level(logging.INFO, "everbrook.access"):
        told = wire.create(path).headers["x-request-id"]
        wire.get("/healthz")
    assert told in [vars(record).get("request_id") for record in caplog.records]


@pytest.mark.usefixtures("faults")
def test_a_failure_of_ours_names_the_request_in_its_document(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.failure = OSError("gone")
    storage.gate.set()
    answer = connect(start(storage)).request("PUT", path, x_request_id="find-me")
    assert (answer.status, answer.problem["request_id"]) == (503, "find-me")


def test_a_refusal_that_is_the_clients_fault_needs_no_id(start: Start, connect: Connect) -> None:
    assert "request_id" not in connect(start()).get("/v1/stream/none").problem
