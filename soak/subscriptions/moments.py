"""Moments at which a server may be killed: when something is about to happen, or has just happened."""

import threading
from random import Random

MOMENTS = ("append", "delivery", "answer", "callback", "wake", "claim", "ack", "release", "any")
MAX_DELAY_SECS = 0.006
MAX_WAIT_SECS = 1.5


class Moments:
    """Lets one thread wait until another reaches a chosen moment."""

    def __init__(self) -> None:
        self._chosen: str | None = None
        self._reached = threading.Event()

    def reach(self, moment: str) -> None:
        """Say that a moment has come; whoever waits for it goes on beside the caller."""
        if moment == self._chosen:
            self._reached.set()

    def wait(self, moment: str, random: Random) -> bool:
        """Wait until a moment comes, a short while longer, and tell whether it came at all."""
        secs = random.uniform(0.02, MAX_WAIT_SECS)
        self._reached.clear()
        if moment == "any":
            self._reached.wait(secs)
            return True
        # Some load first, so that the moment is not always the first one after a start.
        self._reached.wait(secs / 2)
        self._chosen = moment
        came = self._reached.wait(MAX_WAIT_SECS)
        self._chosen = None
        if came:
            threading.Event().wait(random.uniform(0, MAX_DELAY_SECS))
        return came
