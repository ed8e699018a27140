"""Tables of Postgres as sources (their changes) and as sinks of jobs."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from everbrook.spark.jobs.job import Count, Job, Lag, LagOf, Text
from everbrook.spark.jobs.places import Place, database_url, server_url
from everbrook.spark.jobs.streams import stream_name
from everbrook.spark.options import ServerOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "everbrook_postgres"
_LONGEST_NAME = 63
_LOOK_SECS = 5.0


class TableSource(Struct, frozen=True):
    """Changes of tables, from a copy of what they hold on."""

    MARKS: ClassVar[tuple[str, ...]] = ("tables",)

    tables: list[Text]
    url: Text | None = None
    slot: Text | None = None
    publication: Text | None = None
    stream_prefix: Text | None = None
    stream_column: Text | None = None
    key_columns: Text | None = None
    initial_copy: bool | None = None
    replica_identity: Literal["full", "keep"] | None = None
    on_truncate: Text | None = None
    old_values: bool | None = None
    max_rows_per_trigger: Count | None = None
    max_bytes_per_trigger: Count | None = None
    copy_connections: Count | None = None

    def check(self, job: Job) -> None:
        """Refuse options that contradict each other."""
        if not self.tables:
            raise ValueError("tables must name at least one")
        from everbrook.spark.capture.options import parse_capture

        parse_capture(self._options(job))

    def describe(self) -> str:
        """Say which tables."""
        return f"{'table' if len(self.tables) == 1 else 'tables'} {', '.join(self.tables)}"

    def claims(self, job: Job) -> frozenset[str]:
        """Name the slot."""
        return frozenset({f"the slot {self.slot_of(job)} of {_shown(self._url(job))}"})

    def reads(self, job: Job, claim: str) -> bool:
        """Tell whether a table is one of these."""
        return claim in {_name(self._url(job), table) for table in self.tables}

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give the database."""
        return (Place(self._url(job)),)

    def read(self, spark: "SparkSession", job: Job) -> "DataFrame":
        """Begin to read."""
        return spark.readStream.format(FORMAT).options(**self._options(job)).load()

    def reset(self, job: Job) -> list[str]:
        """Drop the slot, and the publication if it is named after it: one that was named here is somebody's own."""
        from everbrook.spark.capture import drop, forget

        slot, own = self.slot_of(job), self.publication is None
        drop(self._url(job), slot, keep_publication=not own)
        forget(_copies(job))
        return [f"slot {slot}", *[f"publication {slot}"] * own]

    def lag_finder(self, job: Job) -> LagOf:
        """Ask Postgres how much of its log the slot has not confirmed."""
        return SlotLag(self._url(job), self.slot_of(job)).find

    def slot_of(self, job: Job) -> str:
        """Give the name of the slot."""
        return self.slot or f"everbrook_{re.sub(r'[^a-z0-9_]', '_', job.name.lower())}"[:_LONGEST_NAME]

    def _url(self, job: Job) -> str:
        return database_url(self.url or job.postgres.url)

    def _options(self, job: Job) -> dict[str, str]:
        given = {
            "url": self._url(job),
            "tables": ",".join(self.tables),
            "slot": self.slot_of(job),
            "publication": self.publication or self.slot_of(job),
            "copyLocation": str(_copies(job)),
            "stream": getattr(job.sink, "stream", None),
            "streamPrefix": self.stream_prefix,
            "streamColumn": self.stream_column,
            "keyColumns": self.key_columns,
            "initialCopy": self.initial_copy,
            "replicaIdentity": self.replica_identity,
            "onTruncate": self.on_truncate,
            "oldValues": self.old_values,
            "maxRowsPerTrigger": self.max_rows_per_trigger,
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
            "copyConnections": self.copy_connections,
        }
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
            if value is not None
        }


def _copies(job: Job) -> Path:
    return job.checkpoint / "copy"


class SlotLag:
    """Tells how far behind a slot is. Each look is a connection, so that it is not taken too often."""

    def __init__(self, url: str, slot: str) -> None:
        self._url, self._slot = url, slot
        self._looked = -_LOOK_SECS
        self._found = Lag()

    def find(self, _progress: Any) -> Lag:
        """Look, or give what was seen a moment ago."""
        if time.monotonic() - self._looked >= _LOOK_SECS:
            self._looked, self._found = time.monotonic(), self._look()
        return self._found

    def _look(self) -> Lag:
        from everbrook.spark.capture.slots import status

        try:
            found = status(self._url, self._slot)
        except Exception:  # noqa: BLE001 - nothing depends on what is told of it
            return Lag()
        return Lag() if found.wal_status == "missing" else Lag(found.lag_bytes, found.retained_bytes)


class TableSink(Struct, frozen=True):
    """A table that gets a row for each message, or the current row of each key."""

    MARKS: ClassVar[tuple[str, ...]] = ("table",)

    table: Text
    url: Text | None = None
    columns: dict[str, Text] | None = None
    mode: Literal["append", "state"] = "append"
    entity_type: Text | None = None
    dead_letters: Text = "table"
    create_table: bool = False

    def check(self, job: Job) -> None:
        """Refuse options that contradict each other, and paths that lead nowhere."""
        from everbrook.spark.postgres.database import DatabaseOptions
        from everbrook.spark.postgres.dead_letters import parse_dead_letters
        from everbrook.spark.postgres.sinks import SinkOptions, parse_sink

        database = DatabaseOptions(self._url(job))
        if isinstance(job.source, TableSource) and job.sql is None:
            raise ValueError("changes of tables go to a stream first: a second job writes them to a table from there")
        if self.columns is not None and not self.columns:
            raise ValueError("columns must name at least one column")
        letters = parse_dead_letters(self.dead_letters, ServerOptions(url=server_url(job.server.url)))
        chosen = None if self.columns is None else tuple(self.columns.items())
        parse_sink(SinkOptions(database, self.table, chosen, self.mode, self.create_table, self.entity_type, letters))

    def describe(self) -> str:
        """Say which table."""
        return f"table {self.table}" if self.mode == "append" else f"table {self.table} ({self.mode})"

    def claims(self, job: Job) -> frozenset[str]:
        """Name the table."""
        return frozenset({_name(self._url(job), self.table)})

    def writes(self, job: Job) -> frozenset[str]:
        """Name the table, and the stream of dead letters if there is one."""
        kind, _, letters = self.dead_letters.partition(":")
        return self.claims(job) | (
            {stream_name(server_url(job.server.url), None, letters)} if kind == "stream" else set()
        )

    def places(self, job: Job) -> tuple[Place, ...]:
        """Give the database."""
        return (Place(self._url(job)),)

    def write(self, df: "DataFrame", job: Job, on_dead_letters: Callable[[int], None]) -> Any:
        """Begin to write."""
        from everbrook.spark import write_postgres

        return write_postgres(
            df,
            str(job.checkpoint),
            url=self._url(job),
            table=self.table,
            columns=self.columns,
            mode=self.mode,
            entity_type=self.entity_type,
            create_table=self.create_table,
            dead_letters=self.dead_letters,
            server=ServerOptions(**(msgspec.structs.asdict(job.server) | {"url": server_url(job.server.url)})),
            trigger=job.trigger.of_spark,
            query_name=job.name,
            on_dead_letters=on_dead_letters,
        )

    def reset(self, job: Job) -> list[str]:
        """Forget the positions of the query."""
        query = query_id(job.checkpoint)
        if query is None:
            return []
        from everbrook.spark.postgres.positions import forget

        forget(self._url(job), query)
        return [f"positions of {query}"]

    def _url(self, job: Job) -> str:
        return database_url(self.url or job.postgres.url)


def query_id(checkpoint: Path) -> str | None:
    """Give the id of the query whose checkpoint it is, by which a database and a server know it."""
    try:
        found: str | None = msgspec.json.decode((checkpoint / "metadata").read_bytes(), type=dict[str, str]).get("id")
    except (OSError, msgspec.MsgspecError):
        return None
    return found


def _shown(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//", url).partition("?")[0]


def _name(url: str, table: str) -> str:
    return f"the table {table.removeprefix('public.')} of {_shown(url)}"
