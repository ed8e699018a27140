"""The table of servers that can be measured, and what each is measured against."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import reference
from bench.cargo import Crate, installed
from bench.processes import HOST, ServerProcess, free_port
from bench.tokens import ISSUER, token_headers

HIGH = str(64 * 1024**3)
# Beside the code and not in the system's folder for temporary files, which may be memory: a sync has to meet a disk.
DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A server, how to start it on a port, and the name of the one it is compared with (none: it is a reference).

    One that keeps streams on disk gets an empty folder, and `folder_arguments` say how it is told. In its command and
    its environment, `{port}` and `{folder}` stand for what it gets. `beside` is a server of our own that takes its
    turns too, to show what the promise costs. One is `durable` if an append is on the disk before its response.
    """

    name: str
    command: Callable[[int], list[str]]
    folder_arguments: Callable[[str], list[str]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    beside: str | None = None
    durable: bool = False
    admission: Callable[[Path], Mapping[str, str]] | None = None
    """Makes the keys that it finds in its folder; returns the headers that every request to it must carry."""
    cases: frozenset[str] | None = None
    """The only cases in which it takes its turns with all others, if it is there to show one thing."""
    checkout: Path | None = None
    """The folder that the server runs in, unless that is the current one: its settings are there."""

    @contextmanager
    def start(self) -> Iterator[ServerProcess]:
        """Run the server on a free port; what it stored is removed after it."""
        port = free_port()
        command, places = self.command(port), {"{port}": str(port)}
        headers: Mapping[str, str] = {}
        with ExitStack() as stack:
            if self.folder_arguments:
                DATA.mkdir(exist_ok=True)
                folder = stack.enter_context(TemporaryDirectory(prefix="bench-", dir=DATA))
                command += self.folder_arguments(folder)
                places["{folder}"] = folder
                headers = self.admission(Path(folder)) if self.admission else headers
            words = [_filled(word, places) for word in command]
            environment = {name: _filled(value, places) for name, value in self.environment.items()}
            yield stack.enter_context(ServerProcess(words, environment, port, self.checkout, headers=headers))

    def takes(self, case: str) -> bool:
        """Whether it takes its turns in a case."""
        return self.cases is None or case in self.cases


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text


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
        durable=durable and storage != "file-fast",
    )


def _with_tokens(subject: Subject) -> Subject:
    """The same server, but every request needs a token of an issuer."""
    settings = {"JWKS": "{folder}/jwks.json", "ISSUER": ISSUER, "AUDIENCE": ISSUER}
    return replace(
        subject,
        name=f"{subject.name}-jwt",
        folder_arguments=subject.folder_arguments or (lambda _: []),
        environment={**subject.environment, **{f"DS_AUTH__{name}": value for name, value in settings.items()}},
        admission=token_headers,
        cases=frozenset({"append-c64-s1"}),
    )


_ELECTRIC = Crate("durable-streams", "0.1.5", "durable-streams-server")
_THESAMPATON = Crate("durable-streams-server", "0.3.0", "durable-streams-server")
PEER_VERSIONS: Mapping[str, str] = {
    "electric": f"{_ELECTRIC.name} {_ELECTRIC.version}",
    "thesampaton": f"{_THESAMPATON.name} {_THESAMPATON.version}",
    "node": f"{reference.PACKAGE} {reference.package_version()}",
}


def _electric(durability: str) -> Subject:
    return Subject(
        name=f"electric-{durability}",
        command=lambda port: [
            str(installed(_ELECTRIC)),
            "--host",
            HOST,
            "--port",
            str(port),
            "--durability",
            durability,
        ],
        # it writes files in memory mode too, without syncs
        folder_arguments=lambda folder: ["--data-dir", folder],
        durable=durability == "wal",
    )


def _thesampaton(storage: str) -> Subject:
    environment = {
        "DS_SERVER__BIND_ADDRESS": f"{HOST}:{{port}}",
        "DS_STORAGE__MODE": storage,
        "DS_LIMITS__MAX_MEMORY_BYTES": HIGH,
        "DS_LIMITS__MAX_STREAM_BYTES": HIGH,
        "DS_OBSERVABILITY__RUST_LOG": "error",
    }
    in_memory = storage == "memory"
    return Subject(
        name=f"thesampaton-{storage}",
        command=lambda _: [str(installed(_THESAMPATON))],
        folder_arguments=None if in_memory else lambda _: [],
        environment=environment if in_memory else environment | {"DS_STORAGE__DATA_DIR": "{folder}"},
        durable=storage in {"file-durable", "acid"},
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
    Subject(name="node-file", command=reference.command, folder_arguments=lambda folder: [folder], durable=True),
    _everbrook("memory", "node-memory", durable=False),
    _with_tokens(_everbrook("memory", "node-memory", durable=False)),
    *(_everbrook(mode, "node-file", durable=True) for mode in MODES[1:]),
    *(_electric(durability) for durability in ("memory", "wal")),
    *(_thesampaton(storage) for storage in MODES),
)

DEFAULT_SUBJECTS = ("everbrook-memory", "everbrook-acid", "everbrook-file-durable")
# Ours is the first of its kind: all others are compared with it.
DEFAULT_PEERS = (
    *("everbrook-memory", "everbrook-memory-jwt", "electric-memory", "thesampaton-memory", "node-memory"),
    *("everbrook-acid", "electric-wal", "thesampaton-file-durable", "node-file"),
)
SUBJECTS: Mapping[str, Subject] = {subject.name: subject for subject in _SUBJECTS}
