"""The options of a capture, checked before Postgres is asked, and the sizes and intervals that users do not set."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from msgspec import Struct

from everbrook.spark.options import GivenOptions, InvalidOption, Spelling, one_of, parse_count, parse_flag, parse_names
from everbrook.spark.postgres.routing import Routing
from everbrook.spark.postgres.transcriber import ONTO_SHARED

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_TABLE = re.compile(r'(?:^|,)((?:"[^"]*"|[^",])*)')
MAX_ROWS, MAX_BYTES = 50_000, 16 * 1024 * 1024


class CaptureTuning(Struct, frozen=True, kw_only=True):
    """How much a capture does at once, and how long it waits."""

    wait_secs: float = 0.5
    """How long `latestOffset` waits for changes. Meanwhile, Spark can't stop the query."""
    advance_secs: float = 10.0
    advance_bytes: int = 16 * 1024 * 1024
    """When a batch without rows lets the slot advance over changes of other tables: after this time, or so much log."""
    task_bytes: int = 4 * 1024 * 1024
    """How much of the copy each task reads."""
    small_bytes: int = 256 * 1024
    """The driver reads a batch of the copy up to this size: to start a task would take longer."""
    pages_per_part: int = 8192
    """64 MiB of a table, which are one file of the copy."""
    lock_timeout: str = "10s"
    """How long the start waits for a lock on a table: a waiting lock blocks all later ones."""
    look_secs: float = 10.0
    """How often a running capture looks whether publication and tables are unchanged."""
    unsure_secs: float = 0.5
    """How old the last look must be to look again because of a change."""
    feedback_secs: float = 5.0
    """How often Postgres gets feedback at least.

    It ends a connection that is silent for a minute (wal_sender_timeout).
    """


DEFAULT_TUNING = CaptureTuning()


class CaptureOptions(Struct, frozen=True):
    """What is captured, from where, and into which streams."""

    url: str
    tables: tuple[str, ...]
    location: Path
    slot: str
    publication: str
    routing: Routing = Routing()
    initial_copy: bool = True
    key_columns: dict[str, tuple[str, ...]] = {}
    """By table, or by an empty name for all."""
    keep_identity: bool = False
    on_truncate: str = "fail"
    old_values: bool = True
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES
    connections: int = 4
    reconnect_secs: int = 60
    envelope: str = "raw"

    def key_of(self, full_name: str, name: str) -> tuple[str, ...]:
        """Return the columns that were named as the key of a table."""
        for known in (full_name.lower(), name.lower(), ""):
            if known in self.key_columns:
                return self.key_columns[known]
        return ()


def parse_capture(options: Mapping[str, str], spelling: Spelling | None = None) -> CaptureOptions:
    """Read the options of `spark.readStream.format("everbrook_postgres")`."""
    given = GivenOptions(options, of="everbrook_postgres source", spelling=spelling)
    url = given.text("url") or os.environ.get("POSTGRES_URL")
    tables = given.optional("tables", parse_tables)
    location = given.optional("copyLocation", parse_folder)
    slot = given.optional("slot", parse_slot)
    publication = given.text("publication")
    chosen = {
        "routing": _routing(given),
        "initial_copy": given.parsed("initialCopy", parse_flag, default=True),
        "key_columns": _key_columns(given),
        "keep_identity": given.parsed("replicaIdentity", one_of("full", "keep"), "full") == "keep",
        "on_truncate": given.parsed("onTruncate", one_of(*ONTO_SHARED), "fail"),
        "old_values": given.parsed("oldValues", parse_flag, default=True),
        "max_rows": given.parsed("maxRowsPerTrigger", parse_count, MAX_ROWS),
        "max_bytes": given.parsed("maxBytesPerTrigger", parse_count, MAX_BYTES),
        "connections": given.parsed("copyConnections", parse_count, 4),
        "reconnect_secs": given.parsed("reconnectSecs", parse_count, 60),
        "envelope": given.parsed("envelope", one_of("raw", "change"), "raw"),
    }
    given.require_known()
    if not url:
        raise InvalidOption("no database is chosen: give its url, or set POSTGRES_URL")
    if not tables:
        raise InvalidOption("no table is chosen: name them in the option tables, with commas between them")
    if location is None:
        raise InvalidOption(
            "give the option copyLocation: a folder of this query alone, which driver and executors share, for the "
            "copy of existing rows and for what must outlive a restart"
        )
    slot = slot or default_slot(location)
    return CaptureOptions(url, tables, location, slot, publication or slot, **chosen)  # type: ignore[arg-type]


def default_slot(location: Path) -> str:
    """Name a slot after the folder of its query."""
    return f"everbrook_{hashlib.sha256(str(location).encode()).hexdigest()[:12]}"


def parse_folder(text: str) -> Path:
    """Read a path, or the URL of a file."""
    parsed = urlparse(text)
    if parsed.scheme not in {"", "file"}:
        raise ValueError("must be a folder of a file system that is mounted here")
    return Path(unquote(parsed.path) if parsed.scheme else text).absolute()


def parse_tables(text: str) -> tuple[str, ...]:
    """Read names of tables as SQL has them, with commas between them. Commas in quotes are of a name."""
    names = tuple(name.strip() for name in _TABLE.findall(text))
    if not all(names) or text.count('"') % 2:
        raise ValueError("must be names with commas between them, quoted as in SQL if necessary")
    return tuple(dict.fromkeys(names))


def parse_slot(text: str) -> str:
    if not _SLOT.fullmatch(text):
        raise ValueError("must be at most 63 of a-z, 0-9 and _")
    return text


def _key_columns(given: GivenOptions) -> dict[str, tuple[str, ...]]:
    found = {name: parse_names(text) for name, text in given.below("keyColumns.").items()}
    for_all = given.optional("keyColumns", parse_names)
    return found if for_all is None else {**found, "": for_all}


def _routing(given: GivenOptions) -> Routing:
    stream, column, prefix = given.text("stream"), given.text("streamColumn"), given.text("streamPrefix")
    if stream is not None and (column is not None or prefix is not None):
        other = given.spelled("streamColumn" if column is not None else "streamPrefix")
        raise InvalidOption(f"stream and {other} contradict each other: one stream for all rows, or several")
    return Routing(stream, prefix or "", column)
