"""A query that captures changes, as Spark runs it but without Spark: positions are JSON, readers go through pickle."""

import json
import pickle
import time
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable

from everbrook.protocol import State, parse_message
from everbrook.spark.postgres.capture_options import CaptureTuning, parse_capture
from everbrook.spark.postgres.capture_source import CaptureReader

Rows = list[dict[str, Any]]
Given = dict[str, Any]


class Capture:
    """Goes on where its checkpoint says. `batch` runs and commits a batch, `plan` and `read` are its halves."""

    def __init__(self, url: str, location: Path, **options: str) -> None:
        self.tuning = CaptureTuning()
        self.options = {"url": url, "tables": "items", "copyLocation": str(location)} | options
        self.checkpoint: list[Given] = []
        self._reader: CaptureReader | None = None

    @property
    def parsed(self) -> Any:  # noqa: ANN401
        return parse_capture(self.options)

    @property
    def slot(self) -> tuple[str, str]:
        """What names the slot to functions that look at it."""
        return self.options["url"], self.parsed.slot

    @property
    def reader(self) -> CaptureReader:
        if self._reader is None:
            self._reader = CaptureReader(self.parsed, self.tuning)
        return self._reader

    @property
    def start(self) -> Given:
        return self.checkpoint[-1] if self.checkpoint else self.reader.initialOffset()

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.stop()
            self._reader = None

    def plan(self) -> tuple[Given, Given]:
        """Decide on a batch, and log it. Without anything new, its end is its start."""
        start = self.start
        return start, json.loads(json.dumps(self.reader.latestOffset(start, ReadAllAvailable())))

    def plan_rows(self) -> tuple[Given, Given]:
        """Decide on a batch when there is something new."""
        start, end = self.plan()
        while start == end:
            start, end = self.plan()
        return start, end

    def read(self, start: Given, end: Given) -> Rows:
        partitions = sent(self.reader.partitions(start, end))
        batches = self.reader.getCache(start, end)
        if batches is None:
            task = sent(self.reader)
            batches = (batch for partition in partitions for batch in task.read(partition))
        return [row for batch in batches for row in batch.to_pylist()]

    def batch(self) -> Rows:
        """Run a batch, and commit it as Spark does: when the next one is decided on."""
        start, end = self.plan()
        if start == end:
            return []
        rows = self.read(start, end)
        if self.checkpoint:
            self.reader.commit(self.checkpoint[-1])
        self.checkpoint.append(end)
        return rows

    def rows(self, count: int, timeout_secs: float = 120.0) -> Rows:
        """Run batches until there were so many rows."""
        found: Rows = []
        deadline = time.monotonic() + timeout_secs
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} rows came: {found[-3:]}"
            found += self.batch()
        assert len(found) == count, found
        return found

    def messages(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(row["value"]) for row in self.rows(count)]

    def changes(self, count: int) -> list[tuple[Any, ...]]:
        """Give operation, key and value of so many messages."""
        return [
            (
                message["headers"].get("operation") or message["headers"]["control"],
                message.get("key"),
                message.get("value"),
            )
            for message in self.messages(count)
        ]


def sent(value: Any) -> Any:  # noqa: ANN401
    """Give what arrives in a task, as Spark sends it."""
    return pickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call] # noqa: S301 - of this line


def folded(rows: Rows) -> dict[str, dict[str, dict[str, Any]]]:
    """Materialise rows by stream, type and key."""
    states: dict[str, State] = {}
    for row in sorted(rows, key=lambda row: (row["stream"], row["offset"])):
        states.setdefault(row["stream"], State()).apply(parse_message(json.loads(row["value"])))
    return {name: {type_: dict(entities) for type_, entities in state.items()} for name, state in states.items()}
