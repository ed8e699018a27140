"""Notifications to systemd, for a service of type `notify`: ready, reloading, stopping, and the watchdog.

Without `NOTIFY_SOCKET` in the environment nothing is sent.
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
    """Return the message that the service reloads, with the present time, which systemd requires."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def notify(message: str) -> None:
    """Send a message to systemd. It is not an error if systemd does not listen."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        # The notation for an abstract socket.
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.connect(address)
        connection.sendall(message.encode())


class Heartbeat:
    """Notifies the watchdog of systemd twice per interval. If the loop hangs, systemd kills the server."""

    def __init__(self, faults: Faults) -> None:
        self._timer: Timer | None = None
        usecs = os.environ.get("WATCHDOG_USEC", "")
        every_secs = int(usecs) / 2_000_000 if usecs.isdecimal() else 0.0
        if every_secs and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            notify(ALIVE)
            self._timer = faults.every(Callback.HEARTBEAT, every_secs, partial(notify, ALIVE))

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
