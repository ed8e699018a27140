"""A suite that can't fail proves nothing: these show that a wrong server, or a shorter suite, is noticed."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.conformance.official.suite import TESTS, Case, Report, Run, TestFile, faults, retry_timed, run_suite
from tests.conformance.targets import TARGETS, serving
from tests.kit.http_server import AnsweringServer

PASSED = [Case(f"test {number}", "passed", ["Group"]) for number in range(TESTS)]


class YesMan(BaseHTTPRequestHandler):
    """Answers 200 and nothing else to whatever it is asked."""

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names http.server calls

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def wrong_server() -> Iterator[str]:
    with AnsweringServer(("127.0.0.1", 0), YesMan) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def unused_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def judge(*cases: Case, exit_code: int = 0) -> list[str]:
    return faults(Run(Report([TestFile(list(cases))]), exit_code))


def test_a_wrong_server_fails_and_each_failure_is_named(wrong_server: str) -> None:
    run = run_suite(wrong_server, only="should return correct headers on PUT")
    assert [case.title for case in run.failed] == ["should return correct headers on PUT"]
    assert (
        "HTTP Protocol > should return correct headers on PUT\n    AssertionError: expected 200 to be 201"
        in "\n".join(faults(run))
    )


def test_no_server_at_all_fails(unused_url: str) -> None:
    run = run_suite(unused_url, only="Browser Security Headers")
    assert {case.message for case in run.failed} == {"TypeError: fetch failed"}
    assert len(run.failed) == 9


def test_all_passed_and_none_left_out_has_no_fault() -> None:
    assert judge(*PASSED) == []


def test_one_failed_test_is_a_fault() -> None:
    failed = Case("reads", "failed", ["Group"], ["Error: expected 1 to be 2\n    at file.js:1"])
    assert judge(*PASSED[1:], failed) == ["failed: Group > reads\n    Error: expected 1 to be 2"]


def test_a_missing_test_is_a_fault() -> None:
    assert judge(*PASSED[1:]) == ["337 tests ran, expected 338"]


def test_a_test_that_skips_itself_is_a_fault() -> None:
    skipped = Case("reads", "skipped", ["Group"])
    assert "did not run: Group > reads" in judge(*PASSED[1:], skipped)


def test_leaving_one_out_beside_all_others_is_a_fault() -> None:
    more = Case("one more", "skipped", ["Reserved subscription APIs"])
    assert judge(*PASSED, more) == ["did not run: Reserved subscription APIs > one more"]


def test_a_suite_that_could_not_be_loaded_is_a_fault() -> None:
    found = faults(Run(Report([TestFile([], "Cannot find module")]), 1))
    assert "not loaded: Cannot find module" in found


def test_no_report_at_all_is_a_fault() -> None:
    assert "0 tests ran, expected 338" in faults(Run(Report(), 1))


def test_a_run_that_was_cut_short_shows_its_last_output() -> None:
    assert faults(Run(Report(), -9, "last test"))[-1].endswith("\nlast test")


def test_an_error_outside_every_test_is_a_fault() -> None:
    assert judge(*PASSED, exit_code=1)[0].startswith("vitest ended with 1 although no test failed")


@pytest.mark.parametrize(
    "exit_code, output, count",
    [(1, " Tests  1 failed | 337 passed", 0), (1, " Tests  1 failed\n     Errors  1 error\n", 1), (-9, "", 1)],
)
def test_an_error_outside_every_test_is_a_fault_of_a_run_with_a_second_try_too(
    exit_code: int, output: str, count: int
) -> None:
    run = Run(Report([TestFile(PASSED)]), exit_code, output, retried=True)
    assert len(faults(run)) == count


def test_only_tests_of_lifetimes_run_once_more(wrong_server: str) -> None:
    timed, other = Case("x", "failed", ["TTL Expiration"]), Case("should return correct headers on PUT", "failed")
    run = Run(Report([TestFile([timed, other])]), 1)
    assert [case.name for case in retry_timed(run, wrong_server).failed] == [timed.name, other.name]
    assert (timed.timed, other.timed) == (True, False)


def test_a_test_of_lifetimes_that_passes_the_second_time_counts(tmp_path: Path) -> None:
    late = Case("should reject TTL with leading zeros", "failed", ["TTL and Expiry Validation"])
    with serving(TARGETS[0], tmp_path) as base_url:
        run = retry_timed(Run(Report([TestFile([late, *PASSED[1:]])]), 1), base_url)
    assert faults(run) == []
