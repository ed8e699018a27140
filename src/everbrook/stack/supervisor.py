"""The supervisor: starts the parts in the order of their needs, restarts those that end, and stops them in reverse.

There is one loop and one thread, so no two parts change at the same time. A part that ends is restarted after a pause,
twice as long each time. If a part fails to start for the first time, the stack ends, with the last lines of its log.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from everbrook.stack import children
from everbrook.stack.errors import NotReady, StackError
from everbrook.stack.leftovers import Processes
from everbrook.stack.parts import UP, Part, Report, State


class SupervisorTuning(Struct, frozen=True, kw_only=True):
    """Intervals and sizes that users do not set. Only tests choose others."""

    step_secs: float = 0.05
    calm_step_secs: float = 0.25
    """How often the parts are checked while all of them are up; `step_secs` until then."""
    first_pause_secs: float = 0.5
    max_pause_secs: float = 30.0
    steady_secs: float = 60.0
    """A part that has run for this long has recovered: its pauses become short again."""
    first_attempts: int = 3
    max_log_bytes: int = 16 << 20


DEFAULT_TUNING = SupervisorTuning()


class Supervised:
    """A part, its process and its state."""

    def __init__(self, part: Part, tuning: SupervisorTuning = DEFAULT_TUNING) -> None:
        self.part = part
        self._tuning = tuning
        self.state = State.WAITING
        self.process: subprocess.Popen[bytes] | None = None
        self.since = 0.0
        self.failures = 0
        self.was_ready = False
        self.trouble = ""
        self.retry_at = 0.0

    def pause_secs(self) -> float:
        return float(min(self._tuning.max_pause_secs, self._tuning.first_pause_secs * 2 ** (self.failures - 1)))


class Supervisor:
    """The parts of a stack. `report` is called for each change of a state, with the reason if there is one."""

    def __init__(
        self, parts: Sequence[Part], processes: Processes, report: Report, tuning: SupervisorTuning = DEFAULT_TUNING
    ) -> None:
        self._tuning = tuning
        self._all = [Supervised(part, tuning) for part in parts]
        self._by_name = {supervised.part.name: supervised for supervised in self._all}
        self._processes = processes
        self._report = report

    @property
    def ready(self) -> bool:
        return all(supervised.state in UP for supervised in self._all)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Keep the parts running until `stopping` returns true. Stop all of them at the end, also after errors."""
        try:
            for supervised in self._all:
                supervised.part.check()
            while not stopping():
                self.step()
                time.sleep(self._tuning.calm_step_secs if self.ready else self._tuning.step_secs)
        finally:
            self.stop()

    def step(self) -> None:
        """Check every part once, and start, restart or report what has changed."""
        for supervised in self._all:
            match supervised.state:
                case State.WAITING if self._needs_met(supervised):
                    self._start(supervised)
                case State.RESTARTING if time.monotonic() >= supervised.retry_at and self._needs_met(supervised):
                    self._start(supervised)
                case State.STARTING:
                    self._look_at_start(supervised)
                case State.READY | State.FAILING:
                    self._look_after(supervised)
                case _:
                    pass

    def stop(self) -> None:
        """Stop the parts, dependents first. A report that can't be written any more does not keep parts running."""
        self._report = _unheard(self._report)
        for supervised in reversed(self._all):
            process = supervised.process
            if process is None:
                continue
            self._turn(supervised, State.STOPPING)
            ended = children.stop(process, supervised.part.stop_signal, supervised.part.stop_timeout_secs)
            self._forget(supervised)
            self._turn(supervised, State.STOPPED, "" if ended else "it did not end when told to, and was killed")

    def kill(self) -> None:
        for supervised in reversed(self._all):
            if supervised.process is not None:
                children.kill(supervised.process)

    def _needs_met(self, supervised: Supervised) -> bool:
        needed = (self._by_name.get(need) for need in supervised.part.needs)
        return all(need is None or need.state in UP for need in needed)

    def _start(self, supervised: Supervised) -> None:
        self._trim(supervised.part)
        supervised.since = time.monotonic()
        self._turn(supervised, State.STARTING)
        try:
            supervised.process = supervised.part.start()
        except StackError as error:
            self._failed(supervised, str(error))
            return
        # The id is recorded at once, so that the next start finds the process if this one is killed.
        self._processes.started(supervised.process.pid)

    def _look_at_start(self, supervised: Supervised) -> None:
        if self._ended(supervised):
            self._failed(supervised, f"it ended: {supervised.part.last_words()}")
            return
        try:
            ready = supervised.part.ready()
        except StackError as error:
            self._failed(supervised, str(error))
            return
        if ready:
            supervised.was_ready, supervised.since = True, time.monotonic()
            self._turn_up(supervised)
        elif time.monotonic() - supervised.since > supervised.part.ready_timeout_secs:
            self._failed(supervised, f"it was not ready after {supervised.part.ready_timeout_secs:g} s")

    def _look_after(self, supervised: Supervised) -> None:
        steady = time.monotonic() - supervised.since > self._tuning.steady_secs
        if steady:
            supervised.failures = 0
        if self._ended(supervised):
            self._failed(supervised, f"it ended: {supervised.part.last_words()}")
        elif steady:
            supervised.since = time.monotonic()
            self._trim(supervised.part)
        elif supervised.part.trouble() != supervised.trouble:
            self._turn_up(supervised)

    def _turn_up(self, supervised: Supervised) -> None:
        supervised.trouble = supervised.part.trouble()
        self._turn(supervised, State.FAILING if supervised.trouble else State.READY, supervised.trouble)

    def _ended(self, supervised: Supervised) -> bool:
        return supervised.process is not None and supervised.process.poll() is not None

    def _failed(self, supervised: Supervised, reason: str) -> None:
        """Kill the rest of a part and schedule its next start. A part that was never ready gets a few attempts only."""
        code = None
        if supervised.process is not None:
            code = supervised.process.poll()
            children.kill(supervised.process)  # its children too
            self._forget(supervised)
        supervised.failures += 1
        hopeless = code in supervised.part.hopeless_codes or supervised.failures >= self._tuning.first_attempts
        if hopeless and not supervised.was_ready:
            raise NotReady(f"{supervised.part.name} does not start: {reason} (more in {supervised.part.log})")
        supervised.retry_at = time.monotonic() + supervised.pause_secs()
        self._turn(supervised, State.RESTARTING, f"again in {supervised.pause_secs():g} s: {reason}")

    def _forget(self, supervised: Supervised) -> None:
        if supervised.process is not None:
            self._processes.ended(supervised.process.pid)
            supervised.process = None

    def _turn(self, supervised: Supervised, state: State, reason: str = "") -> None:
        supervised.state = state
        self._report(supervised.part, state, reason)

    def _trim(self, part: Part) -> None:
        """Limit the size of a log. Its process opened it in append mode, so truncating it is safe while it runs."""
        if part.log_bytes() > self._tuning.max_log_bytes:
            shutil.copyfile(part.log, part.log.with_suffix(".log.1"))
            with part.log.open("r+b") as log:
                log.truncate(0)


def _unheard(report: Report) -> Report:
    def attempt(part: Part, state: State, reason: str) -> None:
        with suppress(OSError):
            report(part, state, reason)

    return attempt
