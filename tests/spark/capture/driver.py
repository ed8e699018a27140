"""A driver to be killed: a query that captures `items` into a stream, in a process of its own.

    driver.py spark|loop DATABASE SERVER FOLDER [broken]

`spark` is the query as users write it. `loop` does what Spark does with a reader and a sink, without the seconds that
Spark takes to start: it logs the end of a batch, runs it, logs that it is committed, and tells the reader so when the
next one is decided on. With `broken` the slot is confirmed when changes are received: the rule that everything rests
on is not kept, and a test that is worth something notices.
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from everbrook.spark.appending import Appender, Producer
from everbrook.spark.capture import receiving
from everbrook.spark.capture.positions import Position
from everbrook.spark.capture.replication import Replication
from everbrook.spark.connection import connect
from everbrook.spark.messages import encode, layout_of
from everbrook.spark.options import parse_sink


def confirm_when_received() -> None:
    """Break the rule."""
    tell = Replication.tell

    def tell_all(self: Replication, received: int, confirmed: int = 0) -> None:
        tell(self, received, max(received, confirmed))

    Replication.tell = tell_all  # type: ignore[method-assign]
    receiving.check_slot = lambda *_: None  # type: ignore[attr-defined]  # which would notice, too


class Log:
    """Lines of JSON that survive being killed."""

    def __init__(self, path: Path) -> None:
        text = path.read_text() if path.exists() else ""
        self.entries = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        path.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries))
        self._file = path.open("a")

    def add(self, entry: Any) -> None:  # noqa: ANN401
        self.entries.append(entry)
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


def loop(database: str, server: str, folder: Path) -> None:
    from tests.spark.capture.query import Capture  # noqa: PLC0415 - Spark has a module of that name's own

    capture = Capture(database, folder / "copy", maxRowsPerTrigger="200")
    ends, commits = Log(folder / "offsets"), Log(folder / "commits")
    sink = parse_sink({"url": server, "autoCreate": "true"})
    appender, reader = Appender(connect(sink.server), sink), capture.reader
    while True:
        number = len(commits.entries)
        start = ends.entries[number - 1] if number else {}
        if len(ends.entries) == number:
            capture.checkpoint = ends.entries[:number]
            _, end = capture.plan()
            if end == start:
                continue
            ends.add(end)
            if number:
                reader.commit(start)
        rows = capture.read(start, ends.entries[number])
        time.sleep(random.random() / 5)  # a driver that does nothing meanwhile is seldom killed within a batch
        if rows:
            table = pa.Table.from_pylist(rows)
            layout = layout_of(_schema(), sink)
            appender.append(Producer("loop", number), pa.Table.from_batches(encode(table.to_batches(), layout)))
        commits.add(number)


def _schema() -> Any:  # noqa: ANN401
    from everbrook.spark.capture.columns import SCHEMAS  # noqa: PLC0415

    return SCHEMAS["raw"]


def spark(database: str, server: str, folder: Path) -> None:
    import everbrook.spark  # noqa: PLC0415

    config = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    session = everbrook.spark.session("driver", master="local[2]", config=config)
    changes = session.readStream.format("everbrook_postgres").options(
        url=database, tables="items", copyLocation=str(folder / "copy"), maxRowsPerTrigger="2000"
    )
    query = everbrook.spark.write_stream(changes.load(), str(folder / "checkpoint"), url=server, autoCreate=True)
    query.awaitTermination()


if __name__ == "__main__":
    way, database_, server_, folder_, *rest = sys.argv[1:]
    if "broken" in rest:
        confirm_when_received()
    Path(folder_).mkdir(exist_ok=True)
    print("begun", os.getpid(), time.time(), Position.__name__, flush=True)  # noqa: T201 - who started it waits for it
    {"loop": loop, "spark": spark}[way](database_, server_, Path(folder_))
