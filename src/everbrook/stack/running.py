"""A stack from its lock to the end of its last process. The first signal stops it in order, a second one at once."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from everbrook.stack.errors import DataUnusable
from everbrook.stack.leftovers import Processes
from everbrook.stack.lock import locked
from everbrook.stack.outside import PLACES, outside
from everbrook.stack.parts import Part
from everbrook.stack.site import Site
from everbrook.stack.state import Report
from everbrook.stack.supervisor import Supervisor

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(site: Site, chosen: Sequence[type[Part]], report: Report) -> None:
    """Run a stack until SIGINT or SIGTERM."""
    with locked(site.data_dir):
        try:
            site.logs.mkdir(exist_ok=True)
            processes = Processes(site.data_dir)
            processes.end_leftovers()
        except OSError as error:
            raise DataUnusable(f"{site.data_dir} can't be written to: {error.strerror}") from error
        for need in outside(chosen):
            PLACES[need].prepare(site)
        supervisor = Supervisor([part(site) for part in chosen], processes, report)
        with _stopping(supervisor) as asked:
            supervisor.run(lambda: bool(asked))


@contextmanager
def _stopping(supervisor: Supervisor) -> Iterator[list[int]]:
    """Collect the signals that ask for the end. Whoever asks twice does not want to wait."""
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            supervisor.kill()
            os._exit(1)

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
