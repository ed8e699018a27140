"""The parts of the stack, in the order in which they start: how each is started, and when it is ready.

A part is a process with a name and a URL. To add one, write a class and add it to `PARTS`.
"""

import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import StrEnum
from http import HTTPStatus
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

from everbrook.server.auth.key_pair import PUBLIC_FILE, load_or_make_pair
from everbrook.stack import children
from everbrook.stack.envoy import Edge, find_envoy, format_config
from everbrook.stack.errors import DataUnusable, WrongParts
from everbrook.stack.postgres import HOST, Postgres, require_free
from everbrook.stack.schema import make_database, make_streams, make_tables
from everbrook.stack.site import EVENTS_STREAM, PROGRESS_STREAM, STACK_DIR, Site
from everbrook.suggestions import suggest


class State(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    FAILING = "failing"  # the process runs, but some of its work has failed for good
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


UP = frozenset({State.READY, State.FAILING})
_TRACEBACK = "Traceback (most recent call last):"
_LAST_LINES = 2
WRONG_USE = frozenset({2})  # the exit code of Everbrook's commands when a setting or a file is wrong


class Part(ABC):
    """One process of the stack. It is started when the parts that it needs are ready, and restarted when it ends."""

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
        """The URL that shows the work of the part."""

    @property
    def hint(self) -> str:
        """Return a hint for users of the part, printed once it is ready."""
        return ""

    @property
    def log(self) -> Path:
        return self.site.logs / f"{self.name}.log"

    def check(self) -> None:  # noqa: B027 - most parts have nothing to check
        """Raise if a start must fail: a port is taken, a program is missing. Called before any start."""

    @abstractmethod
    def start(self) -> subprocess.Popen[bytes]:
        """Prepare and start the process."""

    def ready(self) -> bool:
        """Tell whether the part is ready. The supervisor calls this until it is; a call may take a second."""
        return True

    def trouble(self) -> str:
        """Describe work that has failed for good although the part runs, or return an empty text.

        The supervisor calls this periodically.
        """
        return ""

    def everbrook(self, *arguments: str, module: str = "everbrook") -> subprocess.Popen[bytes]:
        """Start a program of Everbrook under the same Python. It writes to the log of the part."""
        with self.log.open("ab") as log:
            return children.start(
                [sys.executable, "-m", module, *arguments],
                environment=self.site.variables() | {"PYTHONUNBUFFERED": "1"},
                output=log,
                ending=self.stop_signal,
            )

    def log_bytes(self) -> int:
        """Return the size of the log, to find the lines that are written later."""
        return self.log.stat().st_size if self.log.exists() else 0

    def last_words(self) -> str:
        """Return the end of the log in one line. Of a traceback it has only the last line, with the error."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        said = [line for line in text.splitlines() if line and not line[0].isspace() and line != _TRACEBACK]
        return " / ".join(said[-_LAST_LINES:]) or "it printed nothing"


# The part, its new state, and the reason where there is one.
Report = Callable[[Part, State, str], None]


class Server(Part):
    name: ClassVar = "server"
    summary: ClassVar = "streams at a URL"
    hopeless_codes: ClassVar = WRONG_USE

    @property
    def url(self) -> str:
        return self.site.server_url

    @property
    def hint(self) -> str:
        """Name the web page, unless the settings switch it off."""
        return f"the web page is {self.url}/ui/" if answers(self.url, "/ui/") else ""

    def check(self) -> None:
        """Refuse a port that is taken."""
        require_free(self.site.host, self.site.server_port, "the server")

    def start(self) -> subprocess.Popen[bytes]:
        """Start it with the settings of the folder and the environment. The stack decides its address and folder."""
        address = ("--host", self.site.host, "--port", str(self.site.server_port))
        return self.everbrook("serve", *address, "--data-dir", str(self.site.data_dir / "streams"))

    def ready(self) -> bool:
        """Tell whether it is healthy. If so, create the streams."""
        if not answers(self.url):
            return False
        make_streams(self.url)
        return True


def answers(server_url: str, path: str = "/healthz") -> bool:
    """Tell whether a server responds with 200 at a path, by default that of its health."""
    try:
        with urlopen(f"{server_url}{path}", timeout=2) as answer:  # noqa: S310 - the scheme is ours
            return bool(answer.status == HTTPStatus.OK)
    except (URLError, HTTPException, OSError):
        return False


class Database(Part):
    name: ClassVar = "postgres"
    summary: ClassVar = "tables: items and session_events"
    stop_signal: ClassVar = signal.SIGINT

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._cluster = Postgres(site.data_dir / "postgres", site.postgres_port, log=self.log)

    @property
    def url(self) -> str:
        return self.site.postgres_url

    def check(self) -> None:
        """Refuse a port that is taken, and data that no Postgres of this machine can read."""
        require_free(HOST, self.site.postgres_port, "Postgres")
        self._cluster.programs()

    def start(self) -> subprocess.Popen[bytes]:
        return self._cluster.start().process

    def ready(self) -> bool:
        """Tell whether it accepts connections. If so, create the database and tables for the other parts."""
        if not self._cluster.ready():
            return False
        make_database(self.url)
        make_tables(self.url)
        return True


class Pipeline(Part):
    name: ClassVar = "pipeline"
    needs: ClassVar = ("server", "postgres")
    summary: ClassVar = "jobs on Spark, both ways, exactly once"
    hopeless_codes: ClassVar = WRONG_USE
    ready_timeout_secs: ClassVar = 300.0  # Java and Spark start slowly on a busy machine
    stop_timeout_secs: ClassVar = 60.0  # the batch that is under way is finished

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._file = site.data_dir / "pipeline.toml"
        self._seen_bytes = 0
        self._ready = False
        self._failed: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The stream of the progress of its queries."""
        return self.site.stream_url(PROGRESS_STREAM)

    def start(self) -> subprocess.Popen[bytes]:
        if not self._file.exists():
            self._file.write_bytes(files("everbrook.stack").joinpath("pipeline.toml").read_bytes())
        self._seen_bytes, self._ready = self.log_bytes(), False
        self._failed.clear()
        return self.everbrook("pipeline", "run", str(self._file))

    def ready(self) -> bool:
        """Search the log for the line that says that every job has started its query or has failed."""
        self._read()
        return self._ready

    def trouble(self) -> str:
        """Name the jobs that have failed for good."""
        self._read()
        return "; ".join(f"job {job} failed: {why}" for job, why in sorted(self._failed.items()))

    def _read(self) -> None:
        """Read the lines written since the last call. A log that is shorter than before was emptied."""
        if self.log_bytes() < self._seen_bytes:
            self._seen_bytes = 0
        with self.log.open("rb") as log:
            log.seek(self._seen_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._seen_bytes += len(line)
                self._take(_event(line))

    def _take(self, event: dict[str, Any]) -> None:
        if event.get("event") == "ready":
            self._ready = True
        elif event.get("event") == "state":
            self._failed.pop(event["job"], None)
            if event["state"] == "failed":
                self._failed[event["job"]] = str(event.get("error"))


def _event(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


class Heartbeat(Part):
    name: ClassVar = "heartbeat"
    needs: ClassVar = ("server", "postgres")
    summary: ClassVar = "a row or an event every few seconds"

    @property
    def url(self) -> str:
        """The stream to which every second tick is appended."""
        return self.site.stream_url(EVENTS_STREAM)

    def start(self) -> subprocess.Popen[bytes]:
        state = ("--state", str(self.site.data_dir / "heartbeat.json"))
        return self.everbrook(*state, "--interval", str(self.site.interval_secs), module="everbrook.stack.heartbeat")


class Envoy(Part):
    name: ClassVar = "envoy"
    needs: ClassVar = ("server",)
    summary: ClassVar = "the server, for those who have a token"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._keys = site.data_dir / "keys"
        self._edge = Edge(
            server_url=site.server_url,
            port=site.envoy_port,
            admin_port=site.envoy_admin_port,
            jwks=str(self._keys / PUBLIC_FILE),
            host=site.envoy_host,
            **site.edge,
        )

    @property
    def url(self) -> str:
        return self._edge.url

    @property
    def hint(self) -> str:
        """Say how to get a token."""
        default = (self.site.data_dir.parent.name, self.site.data_dir.name) == STACK_DIR.parts
        keys = "" if default else f" --keys {quote(str(self._keys))}"
        return f"a token for {self.url}: everbrook token --sub NAME{keys}"

    def check(self) -> None:
        """Refuse ports that are taken, and a machine without Envoy."""
        require_free(self.site.envoy_host, self.site.envoy_port, "Envoy")
        require_free(HOST, self.site.envoy_admin_port, "the dashboard of Envoy")
        find_envoy()

    def start(self) -> subprocess.Popen[bytes]:
        """Write its configuration, and start it."""
        file = self.site.data_dir / "envoy.yaml"
        try:
            load_or_make_pair(self._keys)
            file.write_text(format_config(self._edge), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise DataUnusable(f"the configuration of Envoy can't be written: {error}") from error
        command = [find_envoy(), "--config-path", str(file), "--disable-hot-restart", "--log-level", "warning"]
        with self.log.open("ab") as log:
            return children.start(command, environment=self.site.variables(), output=log, ending=self.stop_signal)

    def ready(self) -> bool:
        """Tell whether its dashboard reports it as ready."""
        return answers(f"http://{HOST}:{self.site.envoy_admin_port}", "/ready")


PARTS: tuple[type[Part], ...] = (Server, Database, Pipeline, Heartbeat, Envoy)
# The parts that start only if they are named.
OPTIONAL: frozenset[str] = frozenset()


def choose(
    added: Iterable[str] = (), left_out: Iterable[str] = (), parts: tuple[type[Part], ...] = PARTS
) -> list[type[Part]]:
    """Choose the parts to start: all but the optional ones, with those `added` and without those `left_out`."""
    added, left_out = set(added), set(left_out)
    names = [part.name for part in parts]
    for name in sorted(added | left_out):
        if name not in names:
            hint = suggest(name, names)
            raise WrongParts(f"there is no part {name!r}: the parts are {', '.join(names)}{hint}")
    if added & left_out:
        raise WrongParts(f"{', '.join(sorted(added & left_out))}: both with and without it")
    wanted = (set(names) - OPTIONAL | added) - left_out
    if not wanted:
        raise WrongParts("no part is left to start")
    return [part for part in parts if part.name in wanted]
