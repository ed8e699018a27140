"""The verdict: whether tables and streams agree, message by message and row by row, and how they differ if not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from soak.spark.cases import LOST, OUT_OF_ORDER, TWICE
from soak.sync.changes import Event, identity_of

STRANGE = "not what was written"
_SHOWN = 3
Json = Any
Entities = dict[tuple[str, str], Json]


@dataclass(slots=True)
class Agreement:
    """What was found on the other side, held against what has to be there."""

    found: int = 0
    damage: dict[str, list[str]] = field(default_factory=lambda: {LOST: [], TWICE: [], OUT_OF_ORDER: [], STRANGE: []})

    def __str__(self) -> str:
        """Say how it differs, with some examples."""
        told = [f"{len(found):,} {kind} ({', '.join(found[:_SHOWN])})" for kind, found in self.damage.items() if found]
        return "; ".join(told) or "exact"

    @property
    def whole(self) -> bool:
        """Whether there is no difference."""
        return not any(self.damage.values())

    def add(self, other: "Agreement") -> None:
        """Take another one in."""
        self.found += other.found
        for kind, found in other.damage.items():
            self.damage[kind].extend(found)


class Told(NamedTuple):
    """A message of a stream, or the row that it became, with where it is."""

    offset: str
    payload: Json


def compare_changes(stream: str, messages: Iterable[Mapping[str, Json]], expected: Iterable[Event]) -> Agreement:
    """Hold a stream of changes against those that were committed: each once, those of a writer in their order."""
    agreement, wanted = Agreement(), {event.identity: event for event in expected}
    seen: set[tuple[str, str, str, int]] = set()
    newest: dict[int, int] = {}
    for message in messages:
        agreement.found += 1
        identity = identity_of(message)
        event, shown = wanted.get(identity), f"{' '.join(map(str, identity))} of {stream}"
        if event is None or (event.value is not None and event.value != message["value"]):
            agreement.damage[STRANGE].append(shown)
            continue
        if identity in seen:
            agreement.damage[TWICE].append(shown)
        elif event.place < newest.get(event.writer, 0):
            agreement.damage[OUT_OF_ORDER].append(shown)
        seen.add(identity)
        newest[event.writer] = max(newest.get(event.writer, 0), event.place)
    agreement.damage[LOST] = [f"{' '.join(map(str, each))} of {stream}" for each in wanted if each not in seen]
    return agreement


def compare_events(stream: str, rows: Sequence[Told], messages: Sequence[Told]) -> Agreement:
    """Hold the rows of a stream, in the order in which they were written, against its messages."""
    agreement, wanted = Agreement(len(rows)), dict(messages)
    seen: set[str] = set()
    newest = ""
    for offset, payload in rows:
        shown = f"{offset} of {stream}"
        if offset not in wanted or wanted[offset] != payload:
            agreement.damage[STRANGE].append(shown)
        elif offset in seen:
            agreement.damage[TWICE].append(shown)
        elif offset < newest:
            agreement.damage[OUT_OF_ORDER].append(shown)
        seen.add(offset)
        newest = max(newest, offset)
    agreement.damage[LOST] = [f"{offset} of {stream}" for offset in wanted if offset not in seen]
    return agreement


def compare_states(place: str, found: Entities, expected: Entities) -> Agreement:
    """Hold the current values on one side against those on the other."""
    agreement = Agreement(len(found))
    agreement.damage[LOST] = [f"{' '.join(each)} of {place}" for each in expected if each not in found]
    agreement.damage[STRANGE] = [
        f"{' '.join(each)} of {place}"
        for each, value in found.items()
        if each not in expected or expected[each] != value
    ]
    return agreement


def fold(messages: Iterable[Mapping[str, Json]]) -> Entities:
    """Give the current values that the messages of a stream make, in either dialect."""
    values: Entities = {}
    for message in messages:
        headers = message.get("headers", {})
        if headers.get("control") == "reset":
            values.clear()
            continue
        entity, operation = (message["type"], message["key"]), headers.get("operation") or message["operation"]
        if operation in {"remove", "delete"}:
            values.pop(entity, None)
        elif operation == "append":
            values[entity] = values[entity] + message["value"]
        else:
            values[entity] = message["value"]
    return values
