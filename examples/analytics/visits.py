"""A visit: as much of what has happened in a session as is needed to tell what its next event means.

Pure: events go in, in the order of their stream, and facts come out, at most one for each. A visit is small whatever
happens in it, so that millions can be held.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from msgspec import Struct

TYPES = ("message", "presence", "typing", "reaction")
"""Events of any other type say nothing about visits, and are passed over."""
STEPS = ("joined", "asked", "answered", "continued", "closed")
"""The funnel. A visit takes each of them once at most."""
SILENCE_MS = timedelta(days=1) // timedelta(milliseconds=1)
"""A session in which nothing happened for so long begins a new visit with its next event."""
RECENT_MESSAGES = 100
"""How many messages are remembered: one of them that is set again was edited, and is no new message."""


class Event(Struct, frozen=True):
    """What was appended to a session. `gone` is a value that was removed, or somebody who is offline."""

    offset: str
    type: str
    key: str
    gone: bool
    user: str | None
    role: str | None
    at_ms: int


class Fact(Struct, frozen=True):
    """What an event means, with the event that it follows from."""

    offset: str
    kind: Literal["seen", "question", "answer", "closed"]
    at_ms: int
    began_ms: int
    user: str | None = None
    response_ms: int | None = None
    steps: tuple[str, ...] = ()


class Visit(Struct):
    """What has happened so far."""

    began_ms: int
    latest_ms: int
    asked_ms: int | None = None
    steps: list[str] = []
    present: list[str] = []
    messages: list[str] = []

    def observe(self, event: Event) -> Fact | None:
        """Take the next event, and tell what it means, if anything."""
        self.latest_ms = max(self.latest_ms, event.at_ms)
        match event:
            case Event(type="message", gone=False, role="user"):
                return self._question(event)
            case Event(type="message", gone=False, role="assistant"):
                return self._answer(event)
            case Event(type="presence", gone=True):
                return self._farewell(event)
            case Event(type="presence" | "typing" | "reaction", gone=False, user=str()):
                return self._sign(event)
        return None

    def _question(self, event: Event) -> Fact | None:
        if not self._is_new(event.key):
            return None
        again = ("continued",) if "answered" in self.steps else ()
        if self.asked_ms is None:
            self.asked_ms = event.at_ms
        return self._fact(event, "question", user=event.user, steps=self._take("joined", "asked", *again))

    def _answer(self, event: Event) -> Fact | None:
        """Take an answer to all that was asked since the last one; the first of it is what has waited."""
        if not self._is_new(event.key):
            return None
        if self.asked_ms is None:
            return self._fact(event, "answer")
        waited_ms, self.asked_ms = max(0, event.at_ms - self.asked_ms), None
        return self._fact(event, "answer", response_ms=waited_ms, steps=self._take("answered"))

    def _sign(self, event: Event) -> Fact:
        if event.type == "presence" and event.key not in self.present:
            self.present = [*self.present, event.key]
        return self._fact(event, "seen", user=event.user, steps=self._take("joined"))

    def _farewell(self, event: Event) -> Fact | None:
        self.present = [key for key in self.present if key != event.key]
        if self.present or "joined" not in self.steps:
            return None
        steps = self._take("closed")
        return self._fact(event, "closed", steps=steps) if steps else None

    def _is_new(self, key: str) -> bool:
        if key in self.messages:
            return False
        self.messages = [*self.messages[1 - RECENT_MESSAGES :], key]
        return True

    def _take(self, *steps: str) -> tuple[str, ...]:
        new = tuple(step for step in steps if step not in self.steps)
        self.steps = [*self.steps, *new]
        return new

    def _fact(
        self,
        event: Event,
        kind: Literal["seen", "question", "answer", "closed"],
        *,
        user: str | None = None,
        response_ms: int | None = None,
        steps: tuple[str, ...] = (),
    ) -> Fact:
        return Fact(event.offset, kind, event.at_ms, self.began_ms, user, response_ms, steps)


def follow(visit: Visit | None, events: Iterable[Event]) -> tuple[Visit | None, list[Fact]]:
    """Go on with a visit, or begin one, and give what became of it with all facts."""
    facts: list[Fact] = []
    for event in events:
        if visit is None or event.at_ms - visit.latest_ms > SILENCE_MS:
            visit = Visit(event.at_ms, event.at_ms)
        fact = visit.observe(event)
        if fact is not None:
            facts.append(fact)
    return visit, facts
