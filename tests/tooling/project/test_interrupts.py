"""Tests press Ctrl-C, also where pytest itself was started with SIGINT ignored, as a shell does in the background."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """\
import signal, subprocess, pytest

def test_an_interrupt_counts_here():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

def test_an_interrupt_counts_in_a_child():
    assert subprocess.call(["sh", "-c", "kill -INT $$"]) == -signal.SIGINT
"""


def test_an_ignored_interrupt_counts_again_in_workers_and_their_children(tmp_path: Path) -> None:
    tests = tmp_path / "test_interrupts.py"
    tests.write_text(TESTS)
    here = ["-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "tests.conftest", "-n", "1", "-q"]
    ignoring = ["bash", "-c", 'trap "" INT; exec "$@"', "bash"]
    command = [*ignoring, sys.executable, "-m", "pytest", str(tests), *here]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
