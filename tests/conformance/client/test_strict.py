"""What the shipped runner of the client suite lets pass is a failure here."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client.__main__ import faults_of
from tests.conformance.client.runs import Case, Summary
from tools.node import find_node

FOLDER = Path(__file__).parent
SCRIPT = """
import { readFileSync } from "node:fs"
import { fault } from "./strict.mjs"
const { operation, result, answers, statuses } = JSON.parse(readFileSync(0, "utf8"))
console.log(JSON.stringify(fault(operation, result, answers, statuses)))
"""
REFUSED = {"type": "error", "success": False, "status": 404, "errorCode": "NOT_FOUND", "message": "no such stream"}
READ = {"type": "read", "success": True, "status": 200, "chunks": [], "offset": "1"}


def fault(action: str, expect: dict[str, Any], result: dict[str, Any], **more: Any) -> str | None:  # noqa: ANN401
    asked = json.dumps({"operation": {"action": action, "expect": expect}, "result": result, **more})
    command = [str(find_node().executable), "--input-type=module", "--eval", SCRIPT]
    done = subprocess.run(command, cwd=FOLDER, input=asked, capture_output=True, text=True, check=True, timeout=30)
    found: str | None = json.loads(done.stdout)
    return found


def test_a_read_that_meets_its_expectations_has_no_fault() -> None:
    assert fault("read", {"status": 200, "chunkCount": 0}, READ) is None


def test_a_refusal_that_is_expected_has_no_fault() -> None:
    assert fault("read", {"status": 404, "errorCode": "NOT_FOUND"}, REFUSED) is None


@pytest.mark.parametrize("expect", [{"data": "x"}, {"upToDate": True}, {"storeOffsetAs": "kept"}, {}])
def test_a_refusal_is_a_fault_where_none_is_expected(expect: dict[str, Any]) -> None:
    assert fault("read", expect, REFUSED) == "expected success, got NOT_FOUND (404): no such stream"


@pytest.mark.parametrize("expect", [{"error": True}, {"status": 404}, {"errorContains": "x"}, {"valid": False}])
def test_success_is_a_fault_where_a_refusal_is_expected(expect: dict[str, Any]) -> None:
    assert fault("read", expect, READ) == "expected a refusal, got success"


def test_an_expectation_that_nothing_looks_at_is_a_fault() -> None:
    assert fault("read", {"dataContians": "x"}, READ) == "expectation of unknown kind: dataContians"


def test_a_status_that_is_expected_and_not_told_is_a_fault() -> None:
    found = fault("close", {"status": 200}, {"type": "close", "success": True})
    assert found == "expected status 200, got close with status undefined"


def test_a_result_of_another_type_is_a_fault() -> None:
    assert fault("read", {"data": "x"}, {**READ, "type": "append"}) == "expected a result of type read, got append"


def test_every_item_of_a_batch_is_looked_at() -> None:
    answers = [{"type": "append", "success": True, "status": 200}, REFUSED]
    expect, result = {"failIndices": [0], "succeedIndices": [1]}, {"type": "append", "success": False, "status": 207}
    assert fault("append-batch", expect, result, answers=answers) == "expected items 0 to fail, got 1"


def test_a_request_of_the_runner_itself_must_succeed_unless_said_otherwise() -> None:
    result = {"type": "append", "success": True, "status": 400}
    found = fault("server-append", {}, result, statuses=[200, 400])
    assert found == "the server answered 400 to the runner, expected 2xx"


def test_a_run_counts_only_if_failures_and_reasons_agree() -> None:
    cases = [Case("s", "fails", passed=False, error="e"), Case("s", "passes", passed=True)]
    cases.append(Case("s", "skipped", passed=True, skipped=True, skip_reason="r"))
    summary = Summary(total=3, passed=1, failed=1, skipped=1, duration=0, results=cases)
    assert faults_of(summary, {"s/passes": "why"}) == [
        "failed: s/fails: e",
        "passed, though called a contradiction: s/passes",
        "skipped: s/skipped: r",
    ]
