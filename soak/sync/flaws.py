"""Rules of the sync, each broken in a way that a careless change could bring about, in the processes of a soak alone.

Where the damage needs a kill at the right moment, that moment is told in the journal and lasts a little longer.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import psycopg
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from everbrook.spark.postgres import capture_source, positions, receiver as receiver_module, table_sink
from everbrook.spark.postgres.capture_source import CaptureReader, Given
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.mapping import EVENTS
from everbrook.spark.postgres.positions import Reached
from everbrook.spark.postgres.receiver import Receiver
from everbrook.spark.postgres.slot import Replication
from everbrook.spark.postgres.table import create, exists
from everbrook.spark.postgres.table_query import TableBatchWriter
from soak.spark.journal import note
from soak.sync.controls import CONFIRMED_ON_RECEIPT, HELD, POSITIONS_FORGOTTEN

_PAUSE_SECS = 0.7
_KEY = "UNIQUE (stream_name, ds_offset)"


def break_rule(flaw: str) -> None:
    """Break a rule, in this process and in those that it has Spark start."""
    FLAWS[flaw]()


def _forget_positions() -> None:
    """Write rows as if no batch were ever run again, to a table that takes them: it has no key of theirs."""
    lock, write = positions.lock, TableBatchWriter.write

    def forgetful(cursor: Cursor, sink: str, streams: Any) -> dict[str, Reached]:  # noqa: ANN401
        return dict.fromkeys(lock(cursor, sink, streams), Reached())

    def without_key(cursor: Cursor, name: str) -> None:
        if not exists(cursor, name):
            create(cursor, name, EVENTS.replace(f",\n        {_KEY}", ""))

    def held(writing: TableBatchWriter, batch: DataFrame, batch_id: int) -> None:
        write(writing, batch, batch_id)
        if writing._plan.options.mode == table_sink.APPEND:  # noqa: SLF001 - states have a guard of their own
            note(POSITIONS_FORGOTTEN, HELD)
            time.sleep(_PAUSE_SECS)

    _replace(positions, "lock", forgetful)
    _replace(table_sink, "create_events", without_key)
    _replace(TableBatchWriter, "write", held)
    # A task would have to break the rule too.
    _replace(TableBatchWriter, "_write_by_tasks", TableBatchWriter._write_on_driver)  # noqa: SLF001


class HastySource(capture_source.PostgresDataSource):
    """The product's source, in a process whose receiver confirms what it has only received."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the product's reader."""
        _hurry()
        return super().streamReader(schema)


@cache
def _hurry() -> None:
    """Confirm what was received, and never look whether the slot still has what is needed."""
    tell, get_cache = Receiver._send_feedback, CaptureReader.getCache  # noqa: SLF001

    def hasty(receiver: Receiver, replication: Replication) -> None:
        receiver._confirmed = max(receiver._confirmed, receiver._transcriber._done[0])  # noqa: SLF001
        tell(receiver, replication)

    def held(capture: CaptureReader, start: Given, end: Given) -> Iterator[Any] | None:
        rows = get_cache(capture, start, end)
        if "copied_bytes" not in end:
            note(CONFIRMED_ON_RECEIPT, HELD)
            time.sleep(_PAUSE_SECS)
        return rows

    def trusting(_connection: psycopg.Connection[Any], _slot: str, _done_lsn: int) -> None:
        return

    _replace(Receiver, "_tell", hasty)
    _replace(CaptureReader, "getCache", held)
    _replace(receiver_module, "check_slot", trusting)


def _confirm_on_receipt() -> None:
    _replace(capture_source, "PostgresDataSource", HastySource)


def _replace(place: object, name: str, value: object) -> None:
    setattr(place, name, value)


FLAWS: Mapping[str, Callable[[], None]] = {
    POSITIONS_FORGOTTEN: _forget_positions,
    CONFIRMED_ON_RECEIPT: _confirm_on_receipt,
}
