"""Sessions that look real: people join, type, ask, wait, react and leave; an assistant answers in pieces.

    python -m examples.analytics.sessions --sessions 40 --seed 4

The same seed and beginning make the same events. Some are difficult for analytics: messages that a phone sends minutes
after they were written, edits, sessions without an answer, and events of unknown types.
"""

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from msgspec import Struct

from everbrook import Client
from everbrook.client import session_events

PEOPLE = ("ada", "bob", "cem", "dora", "emil", "fay", "gil", "hana", "ivo", "june", "kai", "lea")
SPAN = timedelta(minutes=40)
"""All sessions begin within this time."""
_ANSWERED, _LEAVES, _LATE, _EDITED = 0.85, 0.7, 0.1, 0.1


class Appended(Struct, frozen=True):
    """An event of a session, and the time at which it reaches the server."""

    when: datetime
    session: str
    number: int
    event: dict[str, Any]


def generate(seed: int, sessions: int, begin: datetime) -> list[Appended]:
    """Return the events of the sessions, in the order of their appends."""
    random = Random(seed)  # noqa: S311 - it has to be the same each time, not secret
    tales = [_Tale(random, f"sessions/{seed}-{number}", begin) for number in range(sessions)]
    told = [each for tale in tales for each in tale.tell()]
    return sorted(told, key=lambda each: (each.when, each.session, each.number))


class _Tale:
    """One session under construction."""

    def __init__(self, random: Random, session: str, begin: datetime) -> None:
        self._random = random
        self._session = session
        self._now = begin + random.random() * SPAN
        self._people = random.sample(PEOPLE, random.choice((1, 1, 1, 2, 3)))
        self._messages = 0
        self._told: list[Appended] = []

    def tell(self) -> list[Appended]:
        for person in self._people:
            self._tell(session_events.set("presence", f"user:{person}", {"status": "online", "at": self._at()}))
        for _ in range(self._random.choice((0, 1, 1, 2, 3, 5))):
            self._turn(self._random.choice(self._people))
        if self._random.random() < _LEAVES:
            for person in self._people:
                self._tell(session_events.remove("presence", f"user:{person}"))
        return self._told

    def _turn(self, person: str) -> None:
        self._tell(session_events.set("typing", f"user:{person}", {"at": self._at()}))
        self._tell(session_events.set("cursor", f"user:{person}", {"line": 1}))
        question = self._say("user", person)
        if self._random.random() < _EDITED:
            edited = {"role": "user", "user": person, "text": "I mean …", "at": self._at()}
            self._tell(session_events.set("message", question, edited))
        if self._random.random() < _ANSWERED:
            self._answer(person)

    def _answer(self, person: str) -> None:
        for _ in range(self._random.randint(1, 4)):
            self._tell(session_events.append("chunk", f"msg:{self._messages + 1}", "words "), most_secs=2)
        answer = self._say("assistant", "assistant")
        if self._random.random() < 1 / 3:
            reaction = {"user": person, "emoji": "👍", "at": self._at()}
            self._tell(session_events.set("reaction", f"{answer}/{person}", reaction))

    def _say(self, role: str, user: str) -> str:
        self._messages += 1
        value = {"role": role, "user": user, "text": f"words {self._messages}", "at": self._at()}
        if role == "user" and self._random.random() < _LATE:
            self._now += timedelta(minutes=self._random.randint(1, 5))  # written without a network
        self._tell(session_events.set("message", f"msg:{self._messages}", value))
        return f"msg:{self._messages}"

    def _tell(self, event: dict[str, Any], most_secs: float = 15) -> None:
        self._told.append(Appended(self._now, self._session, len(self._told), event))
        self._now += timedelta(milliseconds=self._random.randint(50, int(most_secs * 1000)))

    def _at(self) -> str:
        return self._now.isoformat(timespec="milliseconds")


def play(client: Client, events: list[Appended]) -> Iterator[Appended]:
    """Append each event at its time. Events of the past are appended at once."""
    begun: set[str] = set()
    for each in events:
        time.sleep(max(0.0, (each.when - datetime.now(UTC)).total_seconds()))
        stream = client.stream(each.session)
        if each.session not in begun:
            stream.create()
            begun.add(each.session)
        stream.append(each.event)
        yield each


def main() -> None:
    parser = argparse.ArgumentParser(description="Append sessions to the streams sessions/*.")
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--live", action="store_true", help="as they happen, not those of the last two hours")
    chosen = parser.parse_args()
    begin = datetime.now(UTC) - (timedelta() if chosen.live else timedelta(hours=2))
    with Client() as client:
        appended = sum(1 for _ in play(client, generate(chosen.seed, chosen.sessions, begin)))
    print(f"{chosen.sessions} sessions, {appended} events")  # noqa: T201 - it is a program


if __name__ == "__main__":
    main()
