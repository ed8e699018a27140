"""The site of a stack: its data folder and the lock on it, its ports, and the URLs of its parts."""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypedDict
from urllib.parse import quote

from everbrook.file_lock import LockHeld, find_owner, take_lock
from everbrook.stack.errors import DataUnusable
from everbrook.stack.postgres import HOST, PASSWORD, USER

SERVER_PORT = 4437
POSTGRES_PORT = 54321
ENVOY_PORT = 8080
ENVOY_ADMIN_PORT = 9901
STACK_DIR = Path("data/stack")
STACK_DIR_VARIABLE = "EVERBROOK_STACK_DIR"
DATABASE = "durable_streams"
SERVER_URL = "DS_SERVER_URL"
POSTGRES_URL = "POSTGRES_URL"
ITEMS_STREAM = "pg-items"
EVENTS_STREAM = "session-events"
PROGRESS_STREAM = "pipeline-progress"
INTERVAL_SECS = 5.0
_LOCK = "stack.lock"


class Told(TypedDict, total=False):
    """Values for Envoy besides its addresses. `Edge` documents them."""

    issuer: str
    audience: str
    identity_header: str
    cert_path: str
    key_path: str
    server_ca_path: str


# A wildcard address is no destination, so the loopback stands for it.
_EVERYWHERE = {"0.0.0.0": HOST, "::": "[::1]"}  # noqa: S104 - looked for, not listened on


class Site(NamedTuple):
    """The addresses and folders that the parts share. `edge` has the values for Envoy besides its addresses."""

    data_dir: Path
    server_url: str
    postgres_url: str
    host: str = HOST
    server_port: int = SERVER_PORT
    postgres_port: int = POSTGRES_PORT
    envoy_host: str = HOST
    envoy_port: int = ENVOY_PORT
    envoy_admin_port: int = ENVOY_ADMIN_PORT
    edge: Told = Told()
    interval_secs: float = INTERVAL_SECS
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    def variables(self) -> dict[str, str]:
        """Return the environment of a part: the inherited one, and the URLs of the server and of Postgres."""
        return dict(self.environment) | {SERVER_URL: self.server_url, POSTGRES_URL: self.postgres_url}

    def stream_url(self, name: str) -> str:
        return f"{self.server_url}/v1/stream/{quote(name)}"


def around_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt this machine from any proxy."""
    exempt = [name for name in environment.get("no_proxy", environment.get("NO_PROXY", "")).split(",") if name]
    words = ",".join(dict.fromkeys([*exempt, "127.0.0.1", "localhost", "::1"]))
    return {"no_proxy": words, "NO_PROXY": words}


def server_url(host: str, port: int) -> str:
    """Return the URL at which this machine reaches a server that listens at an address."""
    reached = _EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{reached}:{port}"


def postgres_url(port: int) -> str:
    """Return the URL of the Postgres of the stack."""
    return f"postgresql://{USER}:{PASSWORD}@{HOST}:{port}/{DATABASE}"


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Lock the data folder. It is created if it is missing."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = take_lock(data_dir / _LOCK)
    except LockHeld as held:
        raise DataUnusable(
            f"a stack runs from {data_dir} already (process {held.owner or 'unknown'}): stop it with "
            f"`everbrook down --data-dir {shlex.quote(str(data_dir))}`, or give another --data-dir"
        ) from held
    except OSError as error:
        raise DataUnusable(f"{data_dir} can't be written to: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(descriptor)


def holder(data_dir: Path) -> int | None:
    """Return the process of the stack that runs from a folder, or None if there is none or its id is unknown."""
    return find_owner(data_dir / _LOCK) or None
