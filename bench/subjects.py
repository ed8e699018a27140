"""The table of servers that can be measured, and what each is measured against."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import reference
from bench.processes import ServerProcess, free_port

_HIGH = str(64 * 1024**3)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A server, how to start it on a port, and the name of the one it is compared with (none: it is a reference)."""

    name: str
    command: Callable[[int], list[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None

    def start(self) -> ServerProcess:
        """A server process on a free port, to be entered."""
        port = free_port()
        return ServerProcess(self.command(port), self.environment, port)


def _everbrook(storage: str, reference_name: str) -> Subject:
    executable = str(Path(sys.executable).with_name("everbrook"))
    return Subject(
        name=f"everbrook-{storage}",
        command=lambda port: [executable, "serve", "--port", str(port), "--storage", storage],
        # no limit of ours may turn a measured append into a refusal
        environment={"DS_LIMITS__MAX_MEMORY_BYTES": _HIGH, "DS_LIMITS__MAX_STREAM_BYTES": _HIGH},
        reference=reference_name,
    )


_SUBJECTS = (
    Subject(name="node-memory", command=reference.command),
    _everbrook("memory", "node-memory"),
)

SUBJECTS: Mapping[str, Subject] = {subject.name: subject for subject in _SUBJECTS}
