"""Pages name ports; tests run on free ones. Both have four digits, so that tables keep their columns."""

import re
import socket
from random import Random

PUBLISHED = ("4437", "8000", "8080")
LOWEST, HIGHEST = 5000, 9999

_NAMED = re.compile(r"((?:127\.0\.0\.1|localhost):|--port[ =]|PORT=|\bport ?= ?)(\d{4})\b")


def free_port(random: Random, taken: set[str]) -> str:
    """Find a port that nobody listens on and that the system gives to nobody unasked."""
    while True:
        port = str(random.randint(LOWEST, HIGHEST))
        if port not in taken and _free(int(port)):
            return port


def _free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


class Ports:
    """Which free port stands for each one that pages name."""

    def __init__(self, random: Random) -> None:
        self._real: dict[str, str] = {}
        for published in PUBLISHED:
            self._real[published] = free_port(random, {*PUBLISHED, *self._real.values()})
        self._published = {real: published for published, real in self._real.items()}

    def __getitem__(self, published: str) -> str:
        return self._real[published]

    def map(self, code: str) -> str:
        """Put the free ports in the place of the published ones, wherever these are ports."""
        return _NAMED.sub(lambda found: found[1] + self._real.get(found[2], found[2]), code)

    def unmap(self, output: str) -> str:
        """Put the published ports back."""
        pattern = "|".join(self._published)
        return re.sub(rf"\b({pattern})\b", lambda found: self._published[found[1]], output)
