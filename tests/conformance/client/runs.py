"""One run of the client suite: a variant, an adapter, and the server that it is held against.

The suite brings the Node reference server; the strict variant takes another one if it is given its URL.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec import Struct, json

from tools.node import Node

FOLDER = Path(__file__).parent
ADAPTER = FOLDER / "adapter.py"
RUN_TIMEOUT_SECS = 900


class Case(Struct, frozen=True, rename="camel"):
    """One test of the suite, as the runner tells of it."""

    suite: str
    test: str
    passed: bool
    error: str = ""
    skipped: bool = False
    skip_reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.test}"


class Summary(Struct, frozen=True):
    """A whole run."""

    total: int
    passed: int
    failed: int
    skipped: int
    duration: int
    results: list[Case]

    @property
    def failures(self) -> list[Case]:
        return [case for case in self.results if not case.passed]


def run(node: Node, variant: Path, adapter: str, *, url: str = "") -> Summary:
    """Run the suite with `adapter`: `--sync` or `--async` of ours, or `ts`, the one that comes with the suite."""
    chosen = [adapter] if adapter == "ts" else [sys.executable, str(ADAPTER), adapter]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [str(node.executable), "--import", "tsx", "run.mjs", str(variant), str(report), *chosen]
        ended = subprocess.run(
            command,
            cwd=FOLDER,
            env=node.environment() | {"CONFORMANCE_URL": url},
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_TIMEOUT_SECS,
        )
        if not report.is_file():
            raise RuntimeError(f"the runner ended with {ended.returncode}:\n{ended.stdout}")
        return json.decode(report.read_bytes(), type=Summary)
