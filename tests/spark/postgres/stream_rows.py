"""Rows as the source gives them, without Spark."""

import json
from datetime import UTC, datetime

import pyarrow as pa

from everbrook.spark.postgres.positions import Writer

TIME = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


def rows(*messages: object, stream: str = "s", start: int = 0) -> pa.RecordBatch:
    """Give messages of a stream: texts and bytes as they are, everything else as JSON."""
    payloads = [each if isinstance(each, str) else _payload(each) for each in messages]
    places = [start]
    for payload in payloads:
        places.append(places[-1] + len(payload if isinstance(payload, bytes) else payload.encode()) + 1)
    offsets = [f"{place:016d}" for place in places]
    return pa.RecordBatch.from_pydict(
        {
            "stream": [stream] * len(payloads),
            "offset": offsets[:-1],
            "next_offset": offsets[1:],
            "content_type": ["application/json"] * len(payloads),
            "value": payloads,
            "time": pa.array([TIME] * len(payloads), pa.timestamp("us", "UTC")),
        }
    )


def _payload(message: object) -> str | bytes:
    return message if isinstance(message, bytes) else json.dumps(message)


def end_of(batch: pa.RecordBatch) -> int:
    """Tell where the next message begins."""
    return int(batch.column("next_offset")[-1].as_py())


def writer(batch: int = 0, query: str = "q", sink: str = "", **incarnations: str) -> Writer:
    return Writer(sink or query, query, batch, incarnations)


def event(key: str, value: object = None, type_: str = "message", operation: str = "set") -> dict[str, object]:
    """Give an event of a session."""
    return {"key": key, "type": type_, "operation": operation, "value": value}


def change(key: str, value: object = None, type_: str = "message", operation: str = "upsert") -> dict[str, object]:
    """Give a change of the State protocol."""
    body: dict[str, object] = {"type": type_, "key": key, "headers": {"operation": operation}}
    return body if operation == "delete" else body | {"value": value}
