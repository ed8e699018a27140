"""What systemd is told of a service of type `notify`: that it is ready, that it reloads, that it stops, that it lives.

Without `NOTIFY_SOCKET` in the environment nobody is told anything.
"""

import contextlib
import os
import socket
import time
from functools import partial

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


def reloading() -> str:
    """Say that the service is about to be ready anew, and when that began."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def notify(message: str) -> None:
    """Tell whoever supervises this process. That nobody listens is not our failure."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.connect(address)
        connection.sendall(message.encode())


class Heartbeat:
    """Tells systemd that the loop still turns, twice in each time that the watchdog waits, if there is one."""

    def __init__(self, faults: Faults) -> None:
        self._timer: Timer | None = None
        usecs = os.environ.get("WATCHDOG_USEC", "")
        every_secs = int(usecs) / 2_000_000 if usecs.isdecimal() else 0.0
        if every_secs and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            notify(ALIVE)
            self._timer = faults.every(Callback.HEARTBEAT, every_secs, partial(notify, ALIVE))

    def stop(self) -> None:
        """Tell nothing more."""
        if self._timer:
            self._timer.cancel()
