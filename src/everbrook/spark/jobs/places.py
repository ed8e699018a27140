"""Servers and databases that jobs need: whether they answer.

A job waits for them rather than fail, so that it does not matter what of a system is started first.
"""

import os
import socket
from urllib.parse import urlsplit

from msgspec import Struct

from everbrook.client import environment
from everbrook.spark.jobs.errors import OutOfReach
from everbrook.spark.jobs.tables import hide_password

_TIMEOUT_SECS = 5
_PORTS = {"http": 80, "https": 443}


class Place(Struct, frozen=True):
    """A server of streams, or a database."""

    url: str

    def reach(self) -> None:
        """Raise `OutOfReach` if it does not answer."""
        if self.url.startswith(("http://", "https://")):
            _reach_server(self.url)
        else:
            _reach_database(self.url)


def server_url(given: str | None) -> str:
    """Give where streams are: as a file says, else as the environment does."""
    return environment.server_url(given, "DS_SERVER_URL")


def database_url(given: str | None) -> str:
    """Give where tables are: as a file says, else as the environment does. Raise ValueError if neither does."""
    found = given or os.environ.get("POSTGRES_URL")
    if not found:
        raise ValueError("which Postgres? Set url in [postgres], or the variable POSTGRES_URL")
    if not found.startswith(("postgresql://", "postgres://")):
        raise ValueError(f"the URL of Postgres must begin with postgresql://, got {hide_password(found)!r}")
    return found


def _reach_server(url: str) -> None:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), _TIMEOUT_SECS).close()
    except OSError as error:
        raise OutOfReach(f"the server {hide_password(url)} can't be reached: {error.strerror or error}") from error


def _reach_database(url: str) -> None:
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=_TIMEOUT_SECS).close()
    except psycopg.OperationalError as error:
        raise OutOfReach(f"{hide_password(url)} can't be reached: {' '.join(str(error).split())}") from error
