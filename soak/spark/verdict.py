"""The verdict: whether what came out is what went in, once and in order, and how it differs if it does not."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from soak.client import Client
from soak.ledger import PromiseBroken
from soak.spark.cases import LOST, OUT_OF_ORDER, TWICE, Case
from soak.spark.load import Source, message, read

_SHOWN = 3


@dataclass(slots=True)
class Compared:
    """What came out of a query, held against what went in."""

    messages: int = 0
    damage: dict[str, list[str]] = field(default_factory=lambda: {LOST: [], TWICE: [], OUT_OF_ORDER: []})

    def __str__(self) -> str:
        """Say how it differs, with some examples."""
        told = [f"{len(found):,} {kind} ({', '.join(found[:_SHOWN])})" for kind, found in self.damage.items() if found]
        return "; ".join(told) or "exactly once and in order"

    @property
    def whole(self) -> bool:
        """Whether nothing is lost, there twice, or out of order."""
        return not any(self.damage.values())


def judge(port: int, case: Case, sources: Sequence[Source]) -> Compared:
    """Read the streams that a query wrote, and compare."""
    sent = {source.name: source.sent for source in sources}
    with closing(Client(port)) as client:
        if case.merged:
            return compare(read(client, case.target), sent)
        found = [
            compare(read(client, name.replace(case.source, case.target)), {name: count}) for name, count in sent.items()
        ]
    whole = Compared(sum(each.messages for each in found))
    for kind, examples in whole.damage.items():
        examples.extend(example for each in found for example in each.damage[kind])
    return whole


def require_sent(port: int, sources: Sequence[Source]) -> None:
    """See that the sources are as they were sent: otherwise it is no matter of Spark."""
    with closing(Client(port)) as client:
        for source in sources:
            found = compare(read(client, source.name), {source.name: source.sent})
            if not found.whole:
                raise PromiseBroken(f"the source {source.name} is not as it was sent: {found}")


def compare(found: Iterable[Mapping[str, Any]], sent: Mapping[str, int]) -> Compared:
    """Hold the messages of a stream against how many of each source were sent."""
    compared = Compared()
    seen: dict[str, set[int]] = {stream: set() for stream in sent}
    newest = dict.fromkeys(sent, -1)
    for entry in found:
        compared.messages += 1
        stream, number = entry["from"], entry["n"]
        if number >= sent.get(stream, 0) or entry != message(stream, number):
            raise PromiseBroken(f"nobody has sent {entry} to be found here")
        if number in seen[stream]:
            compared.damage[TWICE].append(f"{number} of {stream}")
        elif number < newest[stream]:
            compared.damage[OUT_OF_ORDER].append(f"{number} of {stream} behind {newest[stream]}")
        seen[stream].add(number)
        newest[stream] = max(newest[stream], number)
    for stream, count in sent.items():
        compared.damage[LOST].extend(f"{number} of {stream}" for number in range(count) if number not in seen[stream])
    return compared
