"""Refusals come back as the classes that the server raised, and what others answer as what it says."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from everbrook.client.refusals import header_of, refusal_of
from everbrook.protocol.errors import (
    AlreadyClaimed,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    OffsetGone,
    PreconditionFailed,
    ProtocolError,
    SequenceGap,
    StaleEpoch,
    StreamClosed,
    StreamNotFound,
    Unauthorized,
    Unavailable,
)
from everbrook.server.exchange import Response, problem_response
from everbrook.server.resources.subscriptions import refuse

ASKED = "GET http://host/v1/stream/a"


EVERY_KIND = list(dict.fromkeys(ProtocolError.by_code.values()))


def read_back(answer: Response) -> ProtocolError:
    lines = [line.partition(": ") for line in answer.headers.decode().split("\r\n") if line]
    return refusal_of(answer.status, {name: value for name, _, value in lines}, bytes(answer.body), ASKED)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_refusal_of_a_stream_is_rebuilt(kind: type[ProtocolError]) -> None:
    refusal = read_back(problem_response(kind("what was wrong", ((b"Stream-Next-Offset", b"7"),)), b""))
    assert type(refusal) is kind
    assert (refusal.status, refusal.code, refusal.detail) == (kind.status, kind.code, "what was wrong")
    assert header_of(refusal, "stream-next-offset") == "7"


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_refusal_of_a_subscription_is_rebuilt(kind: type[ProtocolError]) -> None:
    refusal = read_back(refuse(kind("what was wrong"), b"", 0))
    assert type(refusal) is kind
    assert (refusal.status, refusal.code, refusal.detail) == (kind.status, kind.code, "what was wrong")


def test_a_claim_that_came_too_late_is_told_who_was_first() -> None:
    refusal = read_back(refuse(AlreadyClaimed("held", holder="worker 7", generation=3), b"", 0))
    assert isinstance(refusal, AlreadyClaimed)
    assert (refusal.holder, refusal.generation) == ("worker 7", 3)


def test_the_text_of_a_refusal_says_what_was_asked() -> None:
    refusal = refusal_of(404, {}, b"", ASKED)
    assert str(refusal) == f"{ASKED}: the server answered 404"


@pytest.mark.parametrize(
    "status, headers, kind",
    [
        (400, {}, BadRequest),
        (401, {}, Unauthorized),
        (403, {}, Forbidden),
        (403, {"producer-epoch": "2"}, StaleEpoch),
        (404, {}, StreamNotFound),
        (409, {}, Conflict),
        (409, {"Stream-Closed": "true"}, StreamClosed),
        (409, {"Producer-Expected-Seq": "1", "Stream-Closed": "true"}, SequenceGap),
        (410, {}, OffsetGone),
        (412, {}, PreconditionFailed),
        (418, {}, ProtocolError),
        (429, {}, ProtocolError),
        (500, {}, ProtocolError),
        (502, {}, ProtocolError),
        (503, {}, Unavailable),
    ],
)
def test_servers_without_codes_are_understood_by_status_and_headers(
    status: int, headers: dict[str, str], kind: type[ProtocolError]
) -> None:
    refusal = refusal_of(status, headers, b"", ASKED)
    assert (type(refusal), refusal.status) == (kind, status)


@pytest.mark.parametrize("status, code", [(429, "http_429"), (500, "http_500"), (404, "stream_not_found")])
def test_a_refusal_without_a_code_gets_one(status: int, code: str) -> None:
    assert refusal_of(status, {}, b"", ASKED).code == code


@pytest.mark.parametrize(
    "body, detail",
    [
        (b"no such stream\n", "no such stream"),
        (b'{"error": "no such stream"}', "no such stream"),
        (b'{"message": "no such stream", "code": 404}', "no such stream"),
        (b'{"title": "Not Found", "detail": null}', "Not Found"),
        (b'{"error": {"message": "no such stream"}}', "no such stream"),
        (b"<html><h1>404</h1></html>", "the server answered 404"),
        (b"", "the server answered 404"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'["a"]', '["a"]'),
    ],
)
def test_what_other_servers_say_is_shown(body: bytes, detail: str) -> None:
    assert refusal_of(404, {}, body, ASKED).detail == detail


def test_a_code_that_another_server_uses_otherwise_is_kept_and_not_believed() -> None:
    refusal = refusal_of(500, {}, b'{"code": "stream_closed", "detail": "oops"}', ASKED)
    assert (type(refusal), refusal.code) == (ProtocolError, "stream_closed")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"error":' * 100_000, b"x" * 10_000_000, b'{"detail": "\xff"}'])
def test_hostile_bodies_make_a_short_refusal(body: bytes) -> None:
    refusal = refusal_of(404, {}, body, ASKED)
    assert isinstance(refusal, NotFound)
    assert len(str(refusal)) < 1200


FIELDS = st.sampled_from(["error", "code", "detail", "message", "title", "generation", "current_holder"])
DOCUMENTS = st.recursive(
    st.none() | st.text() | st.integers(-(2**63), 2**63), lambda inner: st.dictionaries(FIELDS, inner)
)


@given(st.integers(400, 599), DOCUMENTS)
def test_no_document_breaks_the_reader(status: int, document: object) -> None:
    refusal = refusal_of(status, {"X": "ü"}, msgspec.json.encode(document), ASKED)
    assert refusal.status == status
    assert refusal.detail
