"""A visit: the part of a session's history that is needed to interpret its next event.

The functions are pure: they take events in the order of their stream, and return at most one fact for each. The size of
a visit is bounded, so that millions fit into memory.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from msgspec import Struct

TYPES = ("message", "presence", "typing", "reaction")
"""The types of events that concern visits. Others are ignored."""
STEPS = ("joined", "asked", "answered", "continued", "closed")
"""The steps of the funnel. A visit takes each step at most once."""
SILENCE_MS = timedelta(days=1) // timedelta(milliseconds=1)
"""The silence after which the next event of a session starts a new visit."""
RECENT_MESSAGES = 100
"""The number of remembered messages. A remembered message that is set again counts as an edit."""


class Event(Struct, frozen=True):
    """An event of a session. `gone` means that a value was removed, or that a user is offline."""

    offset: str
    type: str
    key: str
    gone: bool
    user: str | None
    role: str | None
    at_ms: int


class Fact(Struct, frozen=True):
    """A fact, with the event from which it follows."""

    offset: str
    kind: Literal["seen", "question", "answer", "closed"]
    at_ms: int
    began_ms: int
    user: str | None = None
    response_ms: int | None = None
    steps: tuple[str, ...] = ()


class Visit(Struct):
    """The state of a visit."""

    began_ms: int
    latest_ms: int
    asked_ms: int | None = None
    steps: list[str] = []
    present: list[str] = []
    messages: list[str] = []

    def observe(self, event: Event) -> Fact | None:
        """Process the next event, and return its fact, if it has one."""
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
        """Process an answer to the questions since the last one. The response time is that of the first question."""
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
    """Continue a visit, or start one, and return it with all its facts."""
    facts: list[Fact] = []
    for event in events:
        if visit is None or event.at_ms - visit.latest_ms > SILENCE_MS:
            visit = Visit(event.at_ms, event.at_ms)
        fact = visit.observe(event)
        if fact is not None:
            facts.append(fact)
    return visit, facts
