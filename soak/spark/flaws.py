"""Rules of the connector, each broken in a way that a careless change could bring about.

They are broken in the processes of a soak, by putting something else in the place of what the product has, and for the
controls alone: any other query that runs in the same process is left as it is.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec.structs import replace
from pyspark.sql.types import StructType

from everbrook.spark.connection import Connection
from everbrook.spark.options import ServerOptions, SinkOptions
from everbrook.spark.streams import stream_query, writer
from everbrook.spark.streams.appender import Producer
from everbrook.spark.streams.messages import Layout, layout_of
from everbrook.spark.streams.offsets import VERSION_KEY, parse_position
from everbrook.spark.streams.ranges import Range
from everbrook.spark.streams.reader import Positions, StreamReader
from soak.spark.cases import CASES
from soak.spark.journal import RUN

HEADER = "soak-case"
"""The header of all requests of a query that says which one it is."""
_NS_PER_MS = 1_000_000


class Served(Protocol):
    """Options of a source or of a sink."""

    @property
    def server(self) -> ServerOptions:
        """Whom to ask, and with which headers."""


def case_of(options: Served) -> str:
    """Give the name of the case that options are of."""
    return dict(options.server.headers)[HEADER]


def break_rules() -> None:
    """Break, in this process, the rule of each control in the queries of that control."""
    _name_producers()
    _drop_producers()
    _move_ranges()
    _forget_order()


def _flaw(case: str) -> str:
    return CASES[case].flaw if case in CASES else ""


PRODUCERS: Mapping[str, Callable[[Producer], Producer]] = {
    "producer for each run": lambda producer: Producer(f"{producer.id}-{os.environ[RUN]}", producer.epoch),
    "epochs of a clock": lambda producer: Producer(producer.id, time.time_ns() // _NS_PER_MS),
    "one epoch": lambda producer: Producer(producer.id, 0),
}


def _name_producers() -> None:
    """Name another producer. The sink's id is the name of the control."""
    producer_of = writer.producer_of

    def named(query_id: str, sink_id: str, batch_id: int) -> Producer:
        producer = producer_of(query_id, sink_id, batch_id)
        name = PRODUCERS.get(_flaw(sink_id))
        return producer if name is None else name(producer)

    for module in (writer, stream_query):
        setattr(module, "producer_of", named)  # noqa: B010 - it is nothing that one sets, as those below


def _drop_producers() -> None:
    """Append as if nothing had ever to be repeated."""
    post = Connection.post

    def unclaimed(connection: Connection, name: str, content: bytes | None, headers: Mapping[str, str]) -> Any:  # noqa: ANN401
        if _flaw(vars(connection)["case"]) == "no producer":
            headers = {header: value for header, value in headers.items() if not header.startswith("Producer-")}
        return post(connection, name, content, headers)

    setattr(Connection, "post", unclaimed)  # noqa: B010


def _move_ranges() -> None:
    """Read from where the streams end now, whatever the checkpoint says; or to where they end, whatever was logged."""
    ranges = StreamReader._ranges  # noqa: SLF001 - what a batch reads
    begun: dict[int, dict[str, str]] = {}

    def moved(reader: StreamReader, start: Positions, end: Positions) -> list[Range]:
        flaw, known = _flaw(case_of(reader._options)), reader._known  # noqa: SLF001
        if flaw == "positions of now":
            since = begun.setdefault(id(reader), dict(known.ends))
            start = {
                **start,
                **{name: text for name, text in since.items() if _offset(start.get(name)) < _offset(text)},
            }
        if flaw == "ends at the tail":
            known.refresh()
            end = {**known.ends, VERSION_KEY: end[VERSION_KEY]}
        return ranges(reader, start, end)

    setattr(StreamReader, "_ranges", moved)  # noqa: B010


def _offset(text: str | None) -> str:
    return "" if text is None else parse_position(text).offset


def _forget_order() -> None:
    """Write rows as tasks hand them over."""

    def forgetful(schema: StructType, options: SinkOptions) -> Layout:
        layout = layout_of(schema, options)
        return replace(layout, order_by=()) if _flaw(case_of(options)) == "no order" else layout

    for module in (writer, stream_query):
        setattr(module, "layout_of", forgetful)  # noqa: B010
