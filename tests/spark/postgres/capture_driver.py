"""A driver to be killed: a query that captures `items` into a stream, in a process of its own.

    driver.py spark|loop|hasty|blind DATABASE SERVER FOLDER

`spark` is the query as users write it. `loop` does what Spark does with a reader and a sink, without the seconds that
Spark takes to start: it logs the end of a batch, runs it, logs that it is committed, and tells the reader so when the
next one is decided on.

Two more break the rule that everything rests on, so that a test that is worth something notices. `hasty` confirms the
slot as soon as changes are received, and waits there to be killed. `blind` is `loop` without the check that would
notice such a slot.
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from everbrook.spark.connection import connect
from everbrook.spark.options import parse_sink
from everbrook.spark.postgres import receiver
from everbrook.spark.postgres.capture_position import CapturePosition
from everbrook.spark.streams.appender import Appender, Producer
from everbrook.spark.streams.messages import encode, layout_of


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


def blind(database: str, server: str, folder: Path) -> None:
    receiver.check_slot = lambda *_: None  # type: ignore[attr-defined]
    loop(database, server, folder)


def hasty(database: str, server: str, folder: Path) -> None:
    loop(database, server, folder, hasty=True)


def loop(database: str, server: str, folder: Path, *, hasty: bool = False) -> None:
    from tests.spark.postgres.capture_query import Capture  # noqa: PLC0415 - Spark has a module of that name's own

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
            if hasty and capture.read(start, end):
                reader.commit(end)
                time.sleep(600)
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
    from everbrook.spark.postgres.capture_source import SCHEMAS  # noqa: PLC0415

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
    way, database_, server_, folder_ = sys.argv[1:]
    Path(folder_).mkdir(exist_ok=True)
    print("begun", os.getpid(), time.time(), CapturePosition.__name__, flush=True)  # noqa: T201 - who started it waits for it
    {"loop": loop, "spark": spark, "hasty": hasty, "blind": blind}[way](database_, server_, Path(folder_))
