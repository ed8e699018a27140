"""The adapter for the upstream client suite answers its runner, on both sides of the client."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.kit.server_process import serving

ADAPTER = Path(__file__).parent / "adapter.py"

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), DS_SERVER__LONG_POLL_TIMEOUT_SECS="0.2") as server:
        yield "http://{}:{}/v1/stream".format(*server.address)


@pytest.fixture(scope="module", params=["--sync", "--async"])
def ask(url: str, request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Send a command to an adapter that runs, and give what it says."""
    command = [sys.executable, str(ADAPTER), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def asked(kind: str, **arguments: object) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"type": kind, **arguments}) + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer

        assert asked("init", serverUrl=url)["success"]
        yield asked
        assert asked("shutdown")["success"]
        assert process.wait() == 0


@pytest.fixture
def path(ask: Ask) -> str:
    path = f"/{uuid4()}"
    assert ask("create", path=path, contentType="text/plain")["status"] == 201
    return path


def test_it_declares_every_feature_of_the_suite(ask: Ask, url: str) -> None:
    assert all(ask("init", serverUrl=url)["features"].values())
    assert len(ask("init", serverUrl=url)["features"]) == 9


def test_what_was_appended_is_read(ask: Ask, path: str) -> None:
    offset = ask("append", path=path, data="hello")["offset"]
    read = ask("read", path=path)
    assert (read["chunks"], read["upToDate"]) == ([{"data": "hello", "offset": offset}], True)


@pytest.mark.parametrize("live", ["sse", "long-poll", True])
def test_a_follow_ends_when_its_time_is_over(ask: Ask, path: str, live: str) -> None:
    ask("append", path=path, data="hello")
    read = ask("read", path=path, live=live, timeoutMs=300)
    assert ([chunk["data"] for chunk in read["chunks"]], read["streamClosed"]) == (["hello"], False)


def test_a_long_poll_that_brought_nothing_is_told_by_its_status(ask: Ask, path: str) -> None:
    assert ask("read", path=path, offset="now", live="long-poll", timeoutMs=500)["status"] == 204


def test_what_a_producer_sent_before_is_there_once(ask: Ask, path: str) -> None:
    for _ in range(2):
        sent = ask("idempotent-append-batch", path=path, items=["a", "b"], producerId="p", epoch=0, autoClaim=False)
        assert sent["success"]
    assert ask("read", path=path)["chunks"][0]["data"] == "ab"


def test_a_header_that_changes_is_told_as_it_went_out(ask: Ask, path: str) -> None:
    ask("set-dynamic-header", name="X-Count", valueType="counter")
    sent = [ask("append", path=path, data="x")["headersSent"] for _ in range(2)]
    ask("clear-dynamic")
    assert sent == [{"X-Count": "1"}, {"X-Count": "2"}]


def test_a_refusal_has_the_code_of_the_suite(ask: Ask) -> None:
    refused = ask("read", path="/nowhere")
    assert (refused["type"], refused["status"], refused["errorCode"]) == ("error", 404, "NOT_FOUND")
    assert "/nowhere" in refused["message"]


def test_an_option_is_refused_under_the_name_that_the_suite_has_for_it(ask: Ask) -> None:
    refused = ask("validate", target={"target": "retry-options", "initialDelayMs": 0})
    assert refused["errorCode"] == "INVALID_ARGUMENT"
    assert "initialDelayMs" in refused["message"]


def test_a_command_that_it_does_not_know_is_not_supported(ask: Ask) -> None:
    assert ask("benchmark")["errorCode"] == "NOT_SUPPORTED"
