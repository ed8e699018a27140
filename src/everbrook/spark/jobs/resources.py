"""What jobs need and share: servers and databases that must be reachable, and resources that only one job may use.

A job waits for the servers and databases that it needs, so that a system can be started in any order.
"""

import os
import re
import socket
from urllib.parse import urlsplit

from msgspec import Struct

from everbrook.client import environment
from everbrook.spark.jobs.toml_values import hide_password

_TIMEOUT_SECS = 5
_PORTS = {"http": 80, "https": 443}


class OutOfReach(Exception):
    """A server or a database can't be reached now."""


class Endpoint(Struct, frozen=True):
    """A server of streams, or a database."""

    url: str

    def reach(self) -> None:
        """Raise `OutOfReach` if it can't be reached."""
        if self.url.startswith(("http://", "https://")):
            _reach_server(self.url)
        else:
            _reach_database(self.url)


def server_url(given: str | None) -> str:
    """Return the server of streams: that of the file, else that of the environment."""
    return environment.server_url(given, "DS_SERVER_URL")


def database_url(given: str | None) -> str:
    """Return the database of tables: that of the file, else that of the environment.

    Raise ValueError without either.
    """
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


class Resource(Struct, frozen=True):
    """A stream, a table or a slot that jobs read or write. Equal ones are the same."""

    kind: str
    name: str
    url: str = ""
    """The server or the database. A table of the lake has none: its name is its folder."""
    bucket: str | None = None

    @classmethod
    def stream(cls, name: str, url: str, bucket: str | None = None) -> "Resource":
        """Identify a stream of a server, or of a bucket of it."""
        return cls("stream", name.strip("/"), url.rstrip("/"), bucket)

    @classmethod
    def table(cls, name: str, url: str = "") -> "Resource":
        """Identify a table of a database, or of the lake."""
        return cls("table", name.removeprefix("public.") if url else name, _without_secrets(url))

    @classmethod
    def slot(cls, name: str, url: str) -> "Resource":
        """Identify a replication slot of a database."""
        return cls("slot", name, _without_secrets(url))

    def is_stream_at(self, url: str, bucket: str | None) -> bool:
        """Return whether it is a stream of this server, in this bucket."""
        return (self.kind, self.url, self.bucket) == ("stream", url.rstrip("/"), bucket)

    def __str__(self) -> str:
        where = " at ".join(part for part in (self.bucket, self.url) if part)
        return f"the {self.kind} {self.name}" + (f" of {where}" if where else "")


def _without_secrets(url: str) -> str:
    """Return the URL of a database without user, password and settings: two users may share a table."""
    return re.sub(r"//[^@/]*@", "//", url).partition("?")[0]
