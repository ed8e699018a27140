"""What a part of the stack is: a process with a name, a URL, what it needs, and a way to tell that it is ready."""

import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from everbrook.stack import children
from everbrook.stack.site import Site

_TRACEBACK = "Traceback (most recent call last):"
_LAST_LINES = 2


WRONG_USE = frozenset({2})  # what commands of Everbrook end with when a setting or a file is wrong


class Part(ABC):
    """One process of the stack. It is started when what it needs is ready, and again whenever it ends."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str]
    ready_timeout_secs: ClassVar[float] = 60.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_timeout_secs: ClassVar[float] = 30.0
    hopeless_codes: ClassVar[frozenset[int]] = frozenset()  # exit codes that another attempt would only repeat

    def __init__(self, site: Site) -> None:
        self.site = site

    @property
    @abstractmethod
    def url(self) -> str:
        """Where to look at what the part does."""

    @property
    def hint(self) -> str:
        """Say what else whoever uses the part needs to know, once it is ready."""
        return ""

    @property
    def log(self) -> Path:
        return self.site.logs / f"{self.name}.log"

    def check(self) -> None:  # noqa: B027 - most parts have nothing to check
        """Raise what makes a start pointless, before anything is started: a port that is taken, a missing program."""

    @abstractmethod
    def start(self) -> subprocess.Popen[bytes]:
        """Start the process, with everything that it needs to have first."""

    def ready(self) -> bool:
        """Say whether it does its work. Asked until it does; may take a second to answer."""
        return True

    def trouble(self) -> str:
        """Say what of its work has failed for good, though it runs. Asked again and again; nothing if all is well."""
        return ""

    def everbrook(self, *arguments: str, module: str = "everbrook") -> subprocess.Popen[bytes]:
        """Start a program of Everbrook, under this very Python, which writes to the log of the part."""
        with self.log.open("ab") as log:
            return children.start(
                [sys.executable, "-m", module, *arguments],
                environment=self.site.variables() | {"PYTHONUNBUFFERED": "1"},
                output=log,
                ending=self.stop_signal,
            )

    def log_bytes(self) -> int:
        """Say how long the log is, to find later what was written since."""
        return self.log.stat().st_size if self.log.exists() else 0

    def last_words(self) -> str:
        """Give the end of the log, in one line; of a traceback only its last line, which is not indented."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        said = [line for line in text.splitlines() if line and not line[0].isspace() and line != _TRACEBACK]
        return " / ".join(said[-_LAST_LINES:]) or "it said nothing"
