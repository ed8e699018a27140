"""The load of the streams: events in both dialects, a few at a time and in bursts, for streams that grow in number.

Whatever stays unanswered is sent again under the same number of its producer, so that each is in its stream once.
"""

import json
import time
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Any

from soak.client import Client, Unanswered
from soak.sync.load import Load
from soak.sync.scene import SESSION_PREFIX

FIRST_STREAMS, MOST_STREAMS = 5, 14
MARKER = "marker"
_KEYS = 40
_NEW_STREAM_SHARE, _BURST_SHARE, _RESET_SHARE = 0.02, 0.02, 0.002
_MAX_PAUSE_SECS = 0.08
_JSON = "application/json"
Json = dict[str, Any]


@dataclass(slots=True)
class Session:
    """A stream: how many messages it has, in how many appends, and the texts that may be appended to."""

    name: str
    sent: int = 0
    appends: int = 0
    texts: set[str] = field(default_factory=set)

    def next(self, random: Random) -> Json:
        """Make a message. Its number is its place in the stream."""
        message = self._message(random, f"k{random.randrange(_KEYS)}") | {"n": self.sent}
        self.sent += 1
        return message

    def mark(self) -> Json:
        """Make a message behind which nothing follows."""
        self.sent += 1
        return {"key": "end", "type": MARKER, "operation": "set", "value": self.sent, "n": self.sent - 1}

    def _message(self, random: Random, key: str) -> Json:
        chance = random.random()
        if chance < _RESET_SHARE:
            self.texts.clear()
            return {"headers": {"control": "reset"}}
        if chance < 0.2:  # noqa: PLR2004 - shares, as those below
            return self._text(random, key)
        value = {"number": self.sent, "room": "x" * random.randrange(400), "of": {"nested": [1, "ä", None]}}
        if chance < 0.6:  # noqa: PLR2004
            event = {"key": key, "type": "message", "operation": "set", "value": value}
            return event if random.random() < 0.8 else {"key": key, "type": "message", "operation": "remove"}  # noqa: PLR2004
        operation = random.choice(("insert", "update", "upsert", "delete"))
        told = {} if operation == "delete" else {"value": value}
        return {"type": "row", "key": key, **told, "headers": {"operation": operation}}

    def _text(self, random: Random, key: str) -> Json:
        if key in self.texts and random.random() < 0.8:  # noqa: PLR2004
            return {"key": key, "type": "text", "operation": "append", "value": f"{self.sent} "}
        self.texts.add(key)
        return {"key": key, "type": "text", "operation": "set", "value": f"{self.sent} "}


class Producer(Load):
    """Appends until it is told to end."""

    def __init__(self, port: int, random: Random) -> None:
        super().__init__("producer", random, _MAX_PAUSE_SECS)
        self.sessions: list[Session] = []
        self._port = port
        for _ in range(FIRST_STREAMS):
            self._create()

    def mark(self) -> None:
        """Append the last message of each stream."""
        for session in self.sessions:
            self._append(session, [session.mark()])

    def step(self) -> None:
        """Append to some streams, or a lot to all."""
        random = self._random
        if len(self.sessions) < MOST_STREAMS and random.random() < _NEW_STREAM_SHARE:
            self._create()
        burst = random.random() < _BURST_SHARE
        for session in self.sessions if burst else random.sample(self.sessions, random.randrange(1, 4)):
            count = random.randrange(100, 400) if burst else random.randrange(1, 5)
            self._append(session, [session.next(random) for _ in range(count)])

    def _create(self) -> None:
        session = Session(f"{SESSION_PREFIX}{len(self.sessions)}")
        self._insist("PUT", session.name, None)
        self.sessions.append(session)

    def _append(self, session: Session, messages: list[Json]) -> None:
        claim = {"Producer_Id": "soak", "Producer_Epoch": "0", "Producer_Seq": str(session.appends)}
        self._insist("POST", session.name, json.dumps(messages).encode(), **claim)
        session.appends += 1

    def _insist(self, method: str, name: str, content: bytes | None, **claim: str) -> None:
        """Ask until there is an answer."""
        begin = time.monotonic()
        with closing(Client(self._port)) as client:
            while True:
                try:
                    client.expect({200, 201, 204}, method, f"/v1/stream/{name}", content, content_type=_JSON, **claim)
                except Unanswered as error:
                    self.require_patience(begin, error)
                    time.sleep(0.02)
                else:
                    return
