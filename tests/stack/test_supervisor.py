"""Parts start after what they need, are started again with growing pauses, and give up only if they never started."""

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from everbrook.cli.exits import STORAGE_FAILED
from everbrook.stack.errors import NotReady
from everbrook.stack.leftovers import Processes
from everbrook.stack.parts import Part, Server
from everbrook.stack.site import Site
from everbrook.stack.supervisor import DEFAULT_TUNING, Supervised, Supervisor, SupervisorTuning
from tests.stack.stacks import eventually


class Sleeper(Part):
    """A part that sleeps, or does whatever else it is told."""

    name: ClassVar = "sleeper"
    program: ClassVar = "import time; time.sleep(60)"

    @property
    def url(self) -> str:
        return "nowhere:"

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-c", self.program], stdout=log, stderr=log, process_group=0)


class Poisoned(Sleeper):
    """A part that ends as a server does whose storage failed, as soon as a file says so."""

    hopeless_codes: ClassVar = Server.hopeless_codes
    program: ClassVar = f"""
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
sys.exit({STORAGE_FAILED})
"""

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", self.program, str(self.site.data_dir / "failed")]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, process_group=0)


class Needy(Sleeper):
    name: ClassVar = "needy"
    needs: ClassVar = ("sleeper",)


class Broken(Sleeper):
    name: ClassVar = "broken"
    program: ClassVar = "raise SystemExit('no bread')"

    def ready(self) -> bool:
        return False


class Misconfigured(Broken):
    hopeless_codes: ClassVar = frozenset({1})


class Late(Sleeper):
    ready_timeout_secs: ClassVar = 0.1

    def ready(self) -> bool:
        return False


class Troubled(Sleeper):
    """A part whose work fails for as long as a file says so."""

    def trouble(self) -> str:
        return "job failed" if (self.site.data_dir / "trouble").exists() else ""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "logs").mkdir()
    return Site(tmp_path, "http://nowhere", "postgresql://nowhere")


def supervise(
    site: Site, *parts: type[Part], tuning: SupervisorTuning = DEFAULT_TUNING
) -> tuple[Supervisor, list[str]]:
    told: list[str] = []
    supervisor = Supervisor(
        [part(site) for part in parts],
        Processes(site.data_dir),
        lambda part, state, _reason: told.append(f"{part.name} {state}"),
        tuning,
    )
    return supervisor, told


def steps_until(supervisor: Supervisor, told: list[str], line: str) -> None:
    def look() -> bool:
        supervisor.step()
        return line in told

    eventually(look)


def test_a_part_starts_after_what_it_needs_and_ends_before_it(site: Site) -> None:
    supervisor, told = supervise(site, Sleeper, Needy)
    steps_until(supervisor, told, "needy ready")
    supervisor.stop()
    assert told[:4] == ["sleeper starting", "sleeper ready", "needy starting", "needy ready"]
    assert told[4:] == ["needy stopping", "needy stopped", "sleeper stopping", "sleeper stopped"]


def test_a_part_that_never_starts_ends_the_stack_with_its_words(site: Site) -> None:
    supervisor, _ = supervise(site, Sleeper, Broken, tuning=SupervisorTuning(first_pause_secs=0.01))
    with pytest.raises(NotReady, match=r"broken does not start: it ended: .*no bread .more in .*broken.log"):
        supervisor.run(lambda: False)


def test_a_wrong_setting_is_not_tried_twice(site: Site) -> None:
    supervisor, told = supervise(site, Misconfigured)
    with pytest.raises(NotReady, match="broken does not start"):
        supervisor.run(lambda: False)
    assert told == ["broken starting"]


def test_a_part_that_is_not_ready_in_time_is_started_again(site: Site) -> None:
    supervisor, told = supervise(site, Late)
    steps_until(supervisor, told, "sleeper restarting")
    supervisor.stop()
    assert told == ["sleeper starting", "sleeper restarting"]


def test_a_server_whose_storage_failed_is_started_again(site: Site) -> None:
    supervisor, told = supervise(site, Poisoned, tuning=SupervisorTuning(first_pause_secs=0.01))
    steps_until(supervisor, told, "sleeper ready")
    (site.data_dir / "failed").touch()
    steps_until(supervisor, told, "sleeper restarting")
    (site.data_dir / "failed").unlink()
    told.clear()
    steps_until(supervisor, told, "sleeper ready")
    supervisor.stop()
    assert told[:2] == ["sleeper starting", "sleeper ready"]


def test_pauses_double_up_to_a_bound(site: Site) -> None:
    supervised = Supervised(Sleeper(site))
    pauses = []
    for supervised.failures in range(1, 10):
        pauses.append(supervised.pause_secs())
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_log_that_has_grown_is_put_aside(site: Site) -> None:
    (site.logs / "sleeper.log").write_text("a long story\n")
    supervisor, told = supervise(site, Sleeper, tuning=SupervisorTuning(max_log_bytes=10))
    steps_until(supervisor, told, "sleeper ready")
    supervisor.stop()
    assert (site.logs / "sleeper.log.1").read_text() == "a long story\n"
    assert (site.logs / "sleeper.log").read_text() == ""


def test_a_part_whose_work_has_failed_is_shown_as_failing_and_goes_on(site: Site) -> None:
    supervisor, told = supervise(site, Troubled, Needy)
    steps_until(supervisor, told, "needy ready")
    (site.data_dir / "trouble").touch()
    supervisor.step()
    supervisor.step()
    (site.data_dir / "trouble").unlink()
    supervisor.step()
    supervisor.stop()
    assert told[4:6] == ["sleeper failing", "sleeper ready"]
    assert told[6] == "needy stopping"
