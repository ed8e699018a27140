"""`@durable-streams/state` on our server: its tables are what Python wrote, and Python reads what it writes."""

import pytest

from everbrook import Client
from tests.conformance.interop.typescript import TypeScript

ADA, EVE = {"id": "a", "name": "Ada"}, {"id": "e", "name": "Eve"}


def change(operation: str, key: str, value: object = None, **headers: str) -> dict[str, object]:
    """A change message of the State protocol."""
    event: dict[str, object] = {"type": "person", "key": key, "headers": {"operation": operation, **headers}}
    return event if operation == "delete" else event | {"value": value}


HISTORY = [
    change("insert", "a", {"id": "a", "name": "?"}),
    change("insert", "e", EVE),
    change("update", "a", ADA),
    change("insert", "x", {"id": "x", "name": "Nobody"}),
    change("delete", "x"),
]


def test_a_materialised_state_is_what_python_wrote(python: Client, typescript: TypeScript, url: str) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    stream.extend(HISTORY)
    assert typescript.call("materialise", url=url)["people"] == {"a": ADA, "e": EVE}


@pytest.mark.parametrize("live", [True, "long-poll", "sse"])
def test_a_database_follows_what_python_writes(
    python: Client,
    typescript: TypeScript,
    url: str,
    live: bool | str,  # noqa: FBT001
) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    stream.extend(HISTORY)
    opened = typescript.call("openDatabase", url=url, live=live)["people"]
    stream.append(change("update", "e", {**EVE, "name": "Eva"}, txid="42"))
    moved = typescript.call("awaitTransaction", url=url, txid="42")["people"]
    typescript.call("closeDatabase", url=url)
    assert sorted(person["name"] for person in opened) == ["Ada", "Eve"]
    assert sorted(person["name"] for person in moved) == ["Ada", "Eva"]


def test_a_long_stream_is_loaded_as_a_whole(python: Client, typescript: TypeScript, url: str) -> None:
    """`preload` with `live: false` ends when it is up to date, which it would never be behind a first page."""
    stream = python.stream(url)
    stream.create(content_type="application/json")
    for key in ("a", "b", "c"):
        stream.append(change("insert", key, {"id": key, "name": key * 1_000_000}))
    opened = typescript.call("openDatabase", url=url, live=False)["people"]
    typescript.call("closeDatabase", url=url)
    assert sorted(person["id"] for person in opened) == ["a", "b", "c"]


def test_python_reads_the_events_of_a_schema(python: Client, typescript: TypeScript, url: str) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    events = [{"operation": "insert", "value": ADA}, {"operation": "delete", "key": "a"}]
    typescript.call("appendEvents", url=url, events=events)
    written = stream.read().all()
    assert [(event["type"], event["key"], event["headers"]["operation"]) for event in written] == [
        ("person", "a", "insert"),
        ("person", "a", "delete"),
    ]
