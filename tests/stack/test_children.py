"""Children never outlive their parent, and Ctrl-C reaches the parent alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from everbrook.stack import children
from tests.stack.stacks import eventually, gone

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)",
]
PARENT = (
    "import subprocess, sys, time; from everbrook.stack import children\n"
    "print(children.start([sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True); time.sleep(60)"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_child_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert gone([child], 10)


def test_a_child_has_a_process_group_of_its_own() -> None:
    child = children.start(SLEEP)
    group = eventually(lambda: os.getpgid(child.pid))
    assert children.stop(child, signal.SIGTERM, 10)
    assert group == child.pid


def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as said:
        child = children.start(STUBBORN, output=said)
    eventually((tmp_path / "said").read_text)
    assert not children.stop(child, signal.SIGTERM, 0.5)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_passes_through_a_folder_of_root(tmp_path: Path) -> None:
    """Postgres may not be root, and its data may lie below root's home."""
    (tmp_path / "deep").mkdir()
    tmp_path.chmod(0o700)
    with (tmp_path / "said").open("wb") as said:
        looking = f"deep = {str(tmp_path / 'deep')!r}; print(os.getuid() != 0, os.listdir(deep), os.access(deep, 4))"
        code = children.start(
            [sys.executable, "-c", f"import os; {looking}"], user=children.ordinary_user(), output=said
        ).wait()
    assert (code, (tmp_path / "said").read_text()) == (0, "True [] True\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_no_other_right_of_root(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as said:
        looking = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')])"
        children.start([sys.executable, "-c", looking], user=children.ordinary_user(), output=said).wait()
    assert int((tmp_path / "said").read_text().strip("[]'\n"), 16) in {0, 1 << 1}
