"""Runs the official server suite against a server, and judges what it reported.

A run counts only when every test ran and passed: fewer tests than the pinned suite holds, or one that skipped itself,
is a fault like a failed one.
"""

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct, field, json
from msgspec.structs import replace

from tools.node import find_node, install_packages

FOLDER = Path(__file__).parent
TESTS = 338
RUN_TIMEOUT_SECS = 300
MESSAGE_LINES = 4


class Case(Struct, frozen=True, rename="camel"):
    """One test of the suite, as vitest's JSON report has it."""

    title: str
    status: str
    ancestor_titles: list[str] = []
    failure_messages: list[str] | None = None

    @property
    def name(self) -> str:
        return " > ".join([*self.ancestor_titles, self.title])

    @property
    def ran(self) -> bool:
        return self.status in {"passed", "failed"}

    @property
    def timed(self) -> bool:
        """Whether the test sleeps for a part of a stream's lifetime, and fails if the machine takes longer."""
        return re.search("TTL|expir", self.name, re.IGNORECASE) is not None

    @property
    def message(self) -> str:
        """The first lines of what went wrong, without the stack beneath."""
        lines = "\n".join(self.failure_messages or []).splitlines()
        told = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("at ")]
        return " | ".join(told[:MESSAGE_LINES])


class TestFile(Struct, frozen=True, rename="camel"):
    """What vitest found in one file; `message` says why it could not be loaded."""

    __test__ = False

    assertion_results: list[Case]
    message: str = ""


class Report(Struct, frozen=True, rename="camel"):
    """What vitest reports of a whole run."""

    test_results: list[TestFile] = field(default_factory=list)

    @property
    def cases(self) -> list[Case]:
        return [case for file in self.test_results for case in file.assertion_results]


class Run(Struct, frozen=True):
    """A report, how the process that made it ended, and the last lines that it printed."""

    report: Report
    exit_code: int
    output: str = ""
    retried: bool = False
    """Whether a test passed only when it ran once more, so that the exit code alone tells nothing."""

    @property
    def erred(self) -> bool:
        """Whether vitest ended with an error that no test of the report has: its summary counts such errors."""
        if self.retried and self.exit_code == 1:
            return re.search(r"^ +Errors +\d+ error", self.output, re.MULTILINE) is not None
        return self.exit_code != 0 and not self.failed

    @property
    def failed(self) -> list[Case]:
        return [case for case in self.report.cases if case.status == "failed"]


def run_suite(base_url: str, *, only: str = "") -> Run:
    """Run the suite, or the tests whose full name matches `only`, against the server at `base_url`."""
    node = find_node()
    install_packages(FOLDER, node)
    with tempfile.TemporaryDirectory() as scratch:
        report, output = Path(scratch) / "report.json", Path(scratch) / "output.txt"
        command = [str(node.executable), "node_modules/vitest/vitest.mjs", "run"]
        command += ["--reporter=verbose", "--reporter=json", f"--outputFile.json={report}"]
        command += ["-t", only] if only else []
        environment = node.environment() | {"CONFORMANCE_URL": base_url, "NO_COLOR": "1"}
        exit_code = _run_to_end(command, environment, output)
        return Run(_read_report(report), exit_code, _last_lines(output))


def retry_timed(run: Run, base_url: str) -> Run:
    """Run the failed tests of lifetimes once more, each alone, and give the report with what became of them."""
    retried = {case.name: run_suite(base_url, only=re.escape(case.title)) for case in run.failed if case.timed}
    passed = {name for name, again in retried.items() if not again.failed and any(c.ran for c in again.report.cases)}
    cases = [replace(case, status="passed") if case.name in passed else case for case in run.report.cases]
    return Run(Report([TestFile(cases)]), run.exit_code, run.output, retried=True) if passed else run


def faults(run: Run) -> list[str]:
    """Everything that keeps a run of the whole suite from counting; nothing when it counts."""
    cases = run.report.cases
    found = [f"failed: {case.name}\n    {case.message}" for case in run.failed]
    found += [f"not loaded: {file.message}" for file in run.report.test_results if not file.assertion_results]
    found += [f"did not run: {case.name}" for case in cases if not case.ran]
    ran = sum(case.ran for case in cases)
    if ran != TESTS:
        found.append(f"{ran} tests ran, expected {TESTS}")
    if run.erred:
        found.append(f"vitest ended with {run.exit_code} although no test failed:\n{run.output}")
    return found


def _run_to_end(command: list[str], env: dict[str, str], output: Path) -> int:
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            command, cwd=FOLDER, env=env, stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(RUN_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _read_report(path: Path) -> Report:
    return json.decode(path.read_bytes(), type=Report) if path.is_file() else Report()


def _last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-20:])
