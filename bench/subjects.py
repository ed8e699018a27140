"""The table of servers that can be measured, and what each is measured against."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import reference
from bench.processes import ServerProcess, free_port

HIGH = str(64 * 1024**3)
# Beside the code and not in the system's folder for temporary files, which may be memory: a sync has to meet a disk.
DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A server, how to start it on a port, and the name of the one it is compared with (none: it is a reference).

    One that keeps streams on disk gets an empty folder, and `folder_arguments` say how it is told. `beside` is a
    server of our own that takes its turns too, to show what the promise costs.
    """

    name: str
    command: Callable[[int], list[str]]
    folder_arguments: Callable[[str], list[str]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    beside: str | None = None
    checkout: Path | None = None
    """The folder that the server runs in, unless that is the current one: its settings are there."""

    @contextmanager
    def start(self) -> Iterator[ServerProcess]:
        """Run the server on a free port; what it stored is removed after it."""
        port = free_port()
        command = self.command(port)
        with ExitStack() as stack:
            if self.folder_arguments:
                DATA.mkdir(exist_ok=True)
                command += self.folder_arguments(stack.enter_context(TemporaryDirectory(prefix="bench-", dir=DATA)))
            yield stack.enter_context(ServerProcess(command, self.environment, port, self.checkout))


def _everbrook(storage: str, reference_name: str, *, durable: bool) -> Subject:
    executable = str(Path(sys.executable).with_name("everbrook"))
    return Subject(
        name=f"everbrook-{storage}",
        command=lambda port: [executable, "serve", "--port", str(port), "--storage", storage],
        folder_arguments=(lambda folder: ["--data-dir", folder]) if durable else None,
        # no limit of ours may turn a measured append into a refusal
        environment={"DS_LIMITS__MAX_MEMORY_BYTES": HIGH, "DS_LIMITS__MAX_STREAM_BYTES": HIGH},
        reference=reference_name,
        beside="everbrook-memory" if durable else None,
    )


def from_checkout(subject: Subject, folder: Path) -> tuple[Subject, Subject]:
    """Return a subject as one that is compared with the same server from another checkout, and that one."""
    (ours,) = (word for word in subject.command(0) if word in MODES)
    before = replace(
        subject,
        name=f"before-{ours}",
        command=lambda port: [sys.executable, "-m", "everbrook", "serve", "--port", str(port), "--storage", ours],
        environment={**subject.environment, "PYTHONPATH": str(folder.resolve() / "src")},
        reference=None,
        beside=None,
        checkout=folder,
    )
    return replace(subject, reference=before.name, beside=None), before


MODES = ("memory", "acid", "file-durable", "file-fast")
_SUBJECTS = (
    Subject(name="node-memory", command=reference.command),
    Subject(name="node-file", command=reference.command, folder_arguments=lambda folder: [folder]),
    _everbrook("memory", "node-memory", durable=False),
    *(_everbrook(mode, "node-file", durable=True) for mode in MODES[1:]),
)

DEFAULT_SUBJECTS = ("everbrook-memory", "everbrook-acid", "everbrook-file-durable")
SUBJECTS: Mapping[str, Subject] = {subject.name: subject for subject in _SUBJECTS}
