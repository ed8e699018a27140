"""Our materialised state beside the official package's, over the same histories of the State protocol."""

from random import Random

import pytest

from everbrook import Client
from everbrook.client import state_events
from tests.conformance.interop.typescript import TypeScript

KEYS = ("a", "b", "__proto__", "é")


def history(seed: int) -> list[dict[str, object]]:
    """Any operations on few keys: inserts of what is there, updates and deletes of what is not."""
    random = Random(seed)
    return [change(random) for _ in range(random.randint(1, 30))]


def change(random: Random) -> dict[str, object]:
    key = random.choice(KEYS)
    if random.random() < 0.3:
        return state_events.delete("person", key)
    values: list[object] = [{"id": key, "n": random.randint(0, 9)}, None, [], "text", 1.5, {"id": key, "more": {}}]
    return random.choice([state_events.insert, state_events.update, state_events.upsert])(
        "person", key, random.choice(values)
    )


@pytest.mark.parametrize("seed", range(12))
def test_both_hold_the_same_values(python: Client, typescript: TypeScript, url: str, seed: int) -> None:
    stream = python.stream(url)
    stream.create(content_type="application/json")
    stream.extend(history(seed))
    theirs = typescript.call("materialise", url=url)["people"]
    with stream.materialise() as state:
        assert state["person"] == theirs
