"""A thread that puts load on one side, step by step, until it is told to end."""

import threading
import time
from abc import ABC, abstractmethod
from random import Random

from soak.ledger import PromiseBroken

PATIENCE_SECS = 120.0


class Load(threading.Thread, ABC):
    """Does its steps with pauses in between. What went wrong in it is there for whoever asks."""

    def __init__(self, name: str, random: Random, max_pause_secs: float) -> None:
        super().__init__(name=name)
        self.failure: Exception | None = None
        self._random, self._max_pause_secs = random, max_pause_secs
        self._ending = threading.Event()
        self._patience_secs = PATIENCE_SECS

    @abstractmethod
    def step(self) -> None:
        """Do something."""

    def run(self) -> None:
        """Do one thing after the other."""
        try:
            while not self._ending.is_set():
                self.step()
                self._ending.wait(self._random.uniform(0, self._max_pause_secs))
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            self.failure = error

    def end(self) -> None:
        """Let the step finish, and end."""
        self._ending.set()
        if self.ident is not None:
            self.join()

    def give_up(self) -> None:
        """Wait for nobody any more."""
        self._patience_secs = 0.0

    def require_patience(self, begin: float, words: object) -> None:
        """Raise if nothing has come of it for too long."""
        waited_secs = time.monotonic() - begin
        if waited_secs > self._patience_secs:
            raise PromiseBroken(f"nobody has answered for {waited_secs:.0f} s: {words}")
