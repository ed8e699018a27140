"""`everbrook pipeline run` as a process of its own, and what it says."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everbrook import Client
from tests.kit.server_process import EVERBROOK, environment

START_SECS = 240.0
"""How long a session of Spark may take to begin on a machine that has other work."""

Event = dict[str, Any]


class PipelineProcess:
    """A running pipeline."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[Event] = []
        self._told = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._told:
                self.events.append(json.loads(line) if line.startswith("{") else {"event": "line", "message": line})
                self._told.notify_all()
        with self._told:
            self._ended = True
            self._told.notify_all()

    def _look(self, matches: Callable[[Event], bool], since: int) -> Event | None:
        return next(filter(matches, self.events[since:]), None)

    def wait_for(self, matches: Callable[[Event], bool], since: int = 0) -> Event:
        """Wait for an event. `since` is how many have been seen already."""
        with self._told:
            self._told.wait_for(lambda: self._look(matches, since) or self._ended, START_SECS)
            found = self._look(matches, since)
        assert found, self.events
        return found

    def wait_for_state(self, job: str, state: str, since: int = 0) -> Event:
        return self.wait_for(lambda event: (event.get("job"), event.get("state")) == (job, state), since)

    def wait_ready(self, since: int = 0) -> Event:
        return self.wait_for(lambda event: event["event"] == "ready", since)

    def jvm(self) -> int | None:
        """Give the number of the JVM's process, if it has begun."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = (int(pid) for task in tasks for pid in task.read_text().split())
        return next((pid for pid in children if b"java" in _program(pid)), None)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and give the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def printed(self) -> list[Event]:
        """Give what was printed to standard output, once it has ended."""
        assert self.process.stdout is not None
        return [json.loads(line) for line in self.process.stdout]

    def ended(self) -> int:
        """Wait for the end, and give the exit code."""
        code = self.process.wait(START_SECS)
        self.join()
        return code

    def join(self) -> None:
        """Wait until everything that it said is read."""
        self._reader.join()


def _program(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


@contextmanager
def running(file: Path, *arguments: str) -> Iterator[PipelineProcess]:
    """Run the jobs of a file."""
    with subprocess.Popen(
        [EVERBROOK, "pipeline", "run", str(file), *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        started = PipelineProcess(process)
        try:
            yield started
        finally:
            process.kill()
            process.wait()
            started.join()


def until(read: Callable[[], list[Any]], count: int) -> list[Any]:
    """Read again and again, until there are so many."""
    deadline = time.monotonic() + START_SECS
    while len(found := read()) < count and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def read_if_there(client: Client, name: str) -> list[Any]:
    """Read a stream that somebody is about to create."""
    return list(client.stream(name).read()) if client.stream(name).exists() else []


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run another command beside it."""
    line = [EVERBROOK, "pipeline", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=environment())
