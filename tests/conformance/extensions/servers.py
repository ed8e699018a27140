"""The servers under test: Everbrook, of which all is expected, or another one, of which 002 and what it claims."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from tests.conformance.extensions.client import Client
from tests.conformance.extensions.streams import BASE_ROOT, fresh_name
from tests.conformance.targets import Target, serving

MAX_SNAPSHOT_BYTES = 300_000
SETTINGS = f"[limits]\nmax_snapshot_bytes = {MAX_SNAPSHOT_BYTES}\n"


class Server(Struct, frozen=True):
    """A server that answers."""

    base_url: str
    extensions: frozenset[str]
    max_snapshot_bytes: int | None
    ours: bool


@contextmanager
def running(target: Target, folder: Path) -> Iterator[Server]:
    """Run Everbrook in an empty folder, for as long as the context lasts."""
    (folder / "config").mkdir()
    (folder / "config/local.toml").write_text(SETTINGS)
    with serving(target, folder) as base_url:
        yield Server(base_url, _named_extensions(base_url), MAX_SNAPSHOT_BYTES, ours=True)


def given(base_url: str, max_snapshot_bytes: int | None) -> Server:
    """Take a server that somebody else runs."""
    return Server(base_url, _named_extensions(base_url), max_snapshot_bytes, ours=False)


def _named_extensions(base_url: str) -> frozenset[str]:
    with Client(base_url) as client:
        named = client.get(f"{BASE_ROOT}/{fresh_name()}").headers.get("stream-extensions", "")
    return frozenset(name.strip() for name in named.split(",") if name.strip())


def require(server: Server, extension: str) -> None:
    """Skip the test where a server of others does not name an extension."""
    if not server.ours and extension not in server.extensions:
        pytest.skip(f"the server does not name {extension} in Stream-Extensions")
