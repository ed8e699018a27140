"""The access log tells of the requests that it is asked to, and never a secret."""

import logging
from typing import Any

import pytest

from everbrook.server.observe.access_log import MAX_CHARACTERS, loggable_target
from everbrook.settings import RequestLog
from tests.kit.server_thread import eventually
from tests.kit.servers import Connect, Start, StartEither


class Records:
    """What was logged of requests so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def all(self) -> list[dict[str, Any]]:
        found = [record for record in self._caplog.records if record.name == "everbrook.access"]
        return [vars(record) | {"text": record.getMessage()} for record in found]


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    caplog.set_level(logging.INFO, "everbrook.access")
    return Records(caplog)


def test_nothing_is_logged_by_default(start: Start, connect: Connect, path: str, records: Records) -> None:
    wire = connect(start())
    wire.create(path)
    wire.get("/healthz")
    assert not records.all


def test_a_record_says_what_was_asked_and_how_it_went(
    start_either: StartEither, connect: Connect, path: str, records: Records
) -> None:
    connect(start_either(log__requests=RequestLog.ALL)).create(path, body=b"12345")
    assert eventually(lambda: records.all)
    told = records.all[0]
    assert (told["method"], told["target"], told["status"], told["operation"]) == ("PUT", path, 201, "create")
    assert (told["request_bytes"], told["address"]) == (5, "127.0.0.1")
    assert told["duration_ms"] > 0


def test_what_can_not_be_read_has_an_id_of_its_own_and_an_address(
    start: Start, connect: Connect, records: Records
) -> None:
    server = start(log__requests=RequestLog.ALL)
    told = [connect(server).send(b"BREW / HTTP/1.1\r\n\r\n").read().headers["x-request-id"] for _ in range(2)]
    assert eventually(lambda: [record["request_id"] for record in records.all] == told)
    assert told[0] != told[1]
    assert {record["address"] for record in records.all} == {"127.0.0.1"}


def test_only_failures_are_logged_where_that_is_asked_for(start: Start, connect: Connect, records: Records) -> None:
    server = start(log__requests=RequestLog.ERRORS)
    wire = connect(server)
    wire.get("/v1/stream/none")
    server.call(server.application.stop)
    wire.get("/readyz")
    assert eventually(lambda: records.all)
    assert [record["status"] for record in records.all] == [503]


def test_a_live_read_is_never_slow(start: Start, connect: Connect, path: str, records: Records) -> None:
    slow = {"log__requests": RequestLog.SLOW, "log__slow_request_secs": 0.0, "server__long_poll_timeout_secs": 0.05}
    wire = connect(start(**slow))
    wire.create(path)
    wire.get(f"{path}?offset=now&live=long-poll")
    wire.get("/healthz")
    assert eventually(lambda: len(records.all) >= 2)
    assert [record["operation"] for record in records.all] == ["create", "probe"]


def test_neither_a_token_nor_a_signature_is_logged(start: Start, connect: Connect, records: Records) -> None:
    wire = connect(start(log__requests=RequestLog.ALL))
    wire.get("/v1/stream/x?offset=-1&signature=s3cret&key=s3cret&%73ignature=s3cret", Authorization="Bearer s3cret")
    assert eventually(lambda: records.all)
    assert "s3cret" not in str(records.all)


@pytest.mark.parametrize(
    "path, query, shown",
    [
        (b"/a", b"", "/a"),
        (b"/a", b"offset=-1&live=sse", "/a?offset=-1&live=sse"),
        (b"/a", b"signature=abc&expires=5", "/a?signature=...&expires=5"),
        (b"/a/eb_1a2b_c2VjcmV0", b"", "/a/..."),
        (b"/eyJhbGciOiJ.eyJzdWIi.c2ln", b"", "/..."),
        (b"/a\nforged line\x1b[31m", b"", "/a?forged line?[31m"),
        (b"/\xff", b"token", "/\\xff?token"),
    ],
)
def test_a_target_is_shown_without_secrets_and_on_one_line(path: bytes, query: bytes, shown: str) -> None:
    assert loggable_target(path, query) == shown


def test_a_long_target_is_cut() -> None:
    assert len(loggable_target(b"/" + b"x" * 10_000, b"")) <= MAX_CHARACTERS + 3
