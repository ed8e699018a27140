"""`make test`: the tests that a change must pass, in three runs at the same time.

`protocol` tests the rules at every branch, under coverage, without generated cases: those are slow to trace and differ
each time. `spark` archives Java's classes and runs the tests that need Spark. `rest` runs all other tests; its workers
never load Spark. In a new checkout `rest` starts with one process that compiles all tests; otherwise each worker would.
`rest` prints its output at once, the others at their end. The exit code is 1 if one of them failed. Ctrl-C reaches all
of them, and each ends by itself.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

HEAVY = ["tests/spark", "tests/stack", "tests/examples", "tests/tooling/docs"]
PYTHON = [sys.executable, "-m"]
PLAIN = ["tests/unit/protocol", "-m", "not hypothesis", "-q", "--no-header"]
COLLECT = "--collect-only"
BY_FILE = ["--dist", "loadfile", "--no-loadscope-reorder", "-q"]
ARCHIVE = Path(sys.prefix, "spark.jsa")
INSTALLED = Path(sys.prefix, ".everything")
"""What `make setup` leaves behind."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/test_run.py", description=__doc__)
    parser.add_argument("--workers", type=int, default=4, help="of `rest`; `spark` has one less")
    parser.add_argument("--reports", type=Path, help="a folder for the reports of junit")
    asked = parser.parse_args()
    rest = [flag for folder in HEAVY for flag in ("--ignore", folder)]
    runs = {
        "protocol": [
            [*PYTHON, "coverage", "run", "-m", "pytest", *PLAIN],
            [*PYTHON, "coverage", "report"],
        ],
        "spark": [*_archive(), _pytest("spark", asked.workers - 1, HEAVY, asked.reports)],
        "rest": [*_compilation(rest), _pytest("rest", asked.workers, rest, asked.reports)],
    }
    with TemporaryDirectory() as folder, ThreadPoolExecutor(len(runs)) as pool:
        ended = {name: pool.submit(_run, name, steps, Path(folder)) for name, steps in runs.items()}
        try:
            failed = [name for name, code in ended.items() if code.result() != 0]
        except KeyboardInterrupt:
            return 130
    print(f"failed: {', '.join(failed)}" if failed else "all tests passed")
    return 1 if failed else 0


def _archive() -> list[list[str]]:
    """Make the archive anew when its tool, or what is installed, is newer: it only fits the Spark that it is of."""
    tool = Path("tools", "quick_java.py")
    made_of = [path.stat().st_mtime for path in (tool, INSTALLED) if path.is_file()]
    fresh = ARCHIVE.is_file() and ARCHIVE.stat().st_mtime > max(made_of)
    return [] if fresh else [[sys.executable, str(tool), str(ARCHIVE)]]


def _compilation(tests: list[str]) -> list[list[str]]:
    """Compile the tests, and the packages that they import, where pytest has left nothing compiled yet."""
    compiled = any(Path("tests", "__pycache__").glob("*-pytest-*.pyc"))
    return [] if compiled else [[*PYTHON, "pytest", *tests, COLLECT]]


def _pytest(name: str, workers: int, tests: list[str], reports: Path | None) -> list[str]:
    report = [] if reports is None else [f"--junit-xml={reports / name}.xml"]
    return [*PYTHON, "pytest", *tests, "-n", str(max(workers, 1)), *BY_FILE, *report]


def _run(name: str, steps: list[list[str]], folder: Path) -> int:
    """Run the steps until one fails; only `rest` may speak meanwhile, or nobody could read it.

    What a step that only collects would say, the one behind it says too.
    """
    began, log = time.monotonic(), folder / name
    code = 0
    with log.open("wb") as output:
        shown = None if name == "rest" else output
        for step in steps:
            heard = subprocess.DEVNULL if COLLECT in step else shown
            # The commands are our own.
            code = subprocess.call(step, stdout=heard, stderr=subprocess.STDOUT, env=_environment())  # noqa: S603
            if code != 0 and COLLECT not in step:
                break
    text = log.read_text(encoding="utf-8", errors="replace")
    print(f"\n== {name}: ended with {code} after {time.monotonic() - began:.0f} s\n{text}", flush=True)
    return code


def _environment() -> dict[str, str]:
    """MAKEFLAGS would reach the make of the tests."""
    return {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}


if __name__ == "__main__":
    sys.exit(main())
