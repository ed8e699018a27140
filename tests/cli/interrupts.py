"""`python interrupts.py N ARGS`: a command that is interrupted when its main thread has just taken a lock.

It is the Nth lock that the main thread takes after the command has connected to a server. Whatever shares that lock
with the main thread finds it taken for ever.
"""

import os
import signal
import sys
from types import FrameType

from everbrook.cli.main import main


class Interrupt:
    """What looks on while the command runs."""

    def __init__(self, after: int) -> None:
        self._left = after
        self._connected = False

    def audit(self, event: str, _args: object) -> None:
        self._connected = self._connected or event == "socket.connect"

    def profile(self, _frame: FrameType, event: str, called: object) -> None:
        takes = event == "c_return" and getattr(called, "__name__", "") in {"acquire", "__enter__"}
        if not (takes and self._connected):
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    interrupt = Interrupt(int(sys.argv[1]))
    sys.addaudithook(interrupt.audit)
    sys.setprofile(interrupt.profile)
    sys.exit(main(sys.argv[2:]))
