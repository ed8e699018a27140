"""`python -m bench.overload.slowed serve`: a server whose appends take time but no processor.

What it can do is then bounded by itself and not by what else the machine has to do, so that the control of overload
can be measured on a busy machine too. It believes that it works while it sleeps.
"""

import sys
import time

from everbrook.cli.main import main
from everbrook.server.application import Application
from everbrook.server.exchange import Reply, Request
from everbrook.server.limits import overload

APPEND_SECS = 0.0004
# Sleeping for less is not exact.
SLEEP_SECS = 0.004


class Sleeper:
    """Sleeps for what is owed, once it is enough."""

    def __init__(self) -> None:
        self._owed_secs = 0.0

    def owe(self, secs: float) -> None:
        """Owe some time."""
        self._owed_secs += secs
        if self._owed_secs >= SLEEP_SECS:
            began = time.monotonic()
            time.sleep(self._owed_secs)
            self._owed_secs -= time.monotonic() - began


def slow_down() -> None:
    """Let every append take its time."""
    handle, sleeper = Application.handle, Sleeper()

    def handle_slowly(self: Application, request: Request) -> Reply:
        if request.method == b"POST":
            sleeper.owe(APPEND_SECS)
        return handle(self, request)

    Application.handle = handle_slowly  # type: ignore[method-assign]
    overload.thread_time = time.monotonic  # type: ignore[attr-defined]


if __name__ == "__main__":
    slow_down()
    sys.exit(main())
