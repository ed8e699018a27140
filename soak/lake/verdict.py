"""The verdict: whether a table has what is in the streams, once, and nothing else."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from everbrook.spark.lake.delta import open_table
from soak.client import Client
from soak.ledger import PromiseBroken
from soak.spark.verdict import Compared, compare

ODD = "many/odd"
"""A stream of messages that change their fields, some of which are no objects."""


def judge(table: Path, sent: Mapping[str, int], odd: list[Any]) -> Compared:
    """Hold a table against what was sent."""
    rows = open_table(table).to_table().sort_by([("stream", "ascending"), ("offset", "ascending")]).to_pylist()
    fields = ("from", "n", "room")
    found = compare(({name: row[name] for name in fields} for row in rows if row["stream"] != ODD), sent)
    _judge_odd([row for row in rows if row["stream"] == ODD], table, odd, found)
    return found


def _judge_odd(rows: list[dict[str, Any]], table: Path, odd: list[Any], found: Compared) -> None:
    """See that each change of fields is a column, and each message that is no object a dead letter."""
    good = [message for message in odd if isinstance(message, dict)]
    bad = [message for message in odd if not isinstance(message, dict)]
    there = [{name: row[name] for name in row if name.startswith("odd_") and row[name] is not None} for row in rows]
    letters = open_table(table / "_dead_letters").to_table().sort_by("offset").to_pylist()
    for kind, expected, got in (("rows", good, there), ("dead letters", bad, _payloads(letters))):
        if got != expected and found.whole:
            raise PromiseBroken(f"{table.name}: {len(expected)} {kind} of {ODD} were sent, and these are there: {got}")


def _payloads(letters: list[dict[str, Any]]) -> list[Any]:
    return [json.loads(letter["message"]) for letter in letters]


def append_odd(port: int, number: int) -> list[Any]:
    """Append a message with a field that no other has, and one that is no object."""
    messages = [{f"odd_{number}": number}, f"bad {number}"]
    with closing(Client(port)) as client:
        path = f"/v1/stream/{ODD}"
        client.expect({200, 201}, "PUT", path, None, content_type="application/json")
        client.expect({200, 204}, "POST", path, json.dumps(messages).encode(), content_type="application/json")
    return messages
