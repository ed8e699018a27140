"""Streams that are changed at random, and the ledger of all their incarnations: the messages that each has had."""

import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from soak.client import Answer, Client, Unanswered
from soak.ledger import PromiseBroken

PREFIX = "in/"
FORGETFUL = "forgetful"
"""The control, whose jobs can't tell incarnations apart."""
STREAMS, MAX_FORKS = 6, 4
JSON = "application/json"
_NOT_FOUND, _CONFLICT = 404, 409
_RETRY_SECS, _PATIENCE_SECS = 0.02, 60.0
_CHANGES = {"append": 60, "create anew": 12, "delete": 4, "cut": 16, "fork": 4}


@dataclass(slots=True)
class Incarnation:
    """One of several streams that had the same name, with the keys of its messages in their order."""

    name: str
    number: int
    id: str
    """How the server identifies it."""
    keys: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    cut: int = 0
    """How many of its messages retention has removed."""
    appends: int = 0
    ended: bool = False
    ended_in: int = 0
    """The run of the jobs in which it was deleted, or after which."""

    def offset_of(self, place: int) -> int:
        """Tell where a message begins."""
        return sum(self.sizes[:place])

    def places_before(self, offset: int) -> int:
        """Tell how many messages end at an offset or before it."""
        return sum(end <= offset for end in accumulate(self.sizes))


class Streams:
    """The streams of a soak, with the changes that can be made to them."""

    def __init__(self, port: int, random: Random) -> None:
        self.all: list[Incarnation] = []
        self.counts = dict.fromkeys(_CHANGES, 0)
        self.run = 0
        """The run of the jobs."""
        self._client = Client(port)
        self._random = random
        self._forks = 0
        for number in range(STREAMS):
            self._create(f"{PREFIX}{number}", random.randrange(1, 30))

    @property
    def living(self) -> list[Incarnation]:
        """The incarnations that exist now."""
        return [each for each in self.all if not each.ended]

    def change(self) -> None:
        """Make one change to one stream, both drawn at random."""
        kind = self._random.choices(list(_CHANGES), list(_CHANGES.values()))[0]
        one = self._random.choice(self.living)
        self.counts[kind] += kind != "cut"
        match kind:
            case "append":
                self._append(one, self._random.randrange(1, 20))
            case "create anew":
                self.create_anew(one)
            case "delete":
                self._delete(one)
                self._create(f"{PREFIX}new-{len(self.all)}", self._random.randrange(5))
            case "cut":
                self._cut(one)
            case _:
                self._fork(one)

    def create_anew(self, one: Incarnation) -> None:
        """Delete a stream, and create one of its name that is shorter, as long, or longer."""
        longer = self._random.choice((0.3, 1.0, 2.0))
        self._delete(one)
        self._create(one.name, 1 + int(longer * min(len(one.keys), 60)))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _create(self, name: str, messages: int) -> None:
        one = Incarnation(name, len(self.all), self._put(name))
        self.all.append(one)
        if messages:
            self._append(one, messages)

    def _append(self, one: Incarnation, count: int) -> None:
        keys = [f"{one.number}-{place}" for place in range(len(one.keys), len(one.keys) + count)]
        messages = [json.dumps(message(key)).encode() for key in keys]
        claim = {"Producer_Id": f"soak-{one.number}", "Producer_Epoch": "0", "Producer_Seq": str(one.appends)}
        body = b"[%b]" % b",".join(messages)
        self._request_until_answered({200, 204}, "POST", one.name, body, {"content_type": JSON, **claim})
        one.appends += 1
        one.keys += keys
        one.sizes += [len(each) + 1 for each in messages]

    def _delete(self, one: Incarnation) -> None:
        """Delete a stream after its forks: as long as a fork exists, the name stays taken."""
        for each in self.living:
            if each.name.startswith(f"{one.name}-fork-"):
                self._delete(each)
        self._request_until_answered({204, _NOT_FOUND}, "DELETE", one.name, None, {})
        one.ended, one.ended_in = True, self.run

    def _cut(self, one: Incarnation) -> None:
        """Remove the beginning of a stream, if the last snapshot of its fold covers it."""
        place = self._random.randint(one.cut, len(one.keys))
        path = f"{one.name}/__ds/retention/{one.offset_of(place):016d}"
        if self._request_until_answered({204, _CONFLICT}, "PUT", path, None, {}).status != _CONFLICT:
            one.cut = place
            self.counts["cut"] += 1

    def _fork(self, source: Incarnation) -> None:
        """Fork a stream. Its fork is another stream with the same messages."""
        if "-fork-" in source.name or sum("-fork-" in each.name for each in self.living) >= MAX_FORKS:
            return
        self._forks += 1
        name = f"{source.name}-fork-{self._forks}"
        found = self._put(name, Stream_Forked_From=f"/v1/stream/{source.name}")
        self.all.append(Incarnation(name, len(self.all), found, [*source.keys], [*source.sizes], source.cut))

    def _put(self, name: str, **headers: str) -> str:
        """Create a stream, and give its incarnation."""
        headers = {"content_type": JSON, **headers}
        answer = self._request_until_answered({200, 201}, "PUT", name, None, headers)
        return str(answer.headers["stream-incarnation"])

    def _request_until_answered(
        self, statuses: set[int], method: str, name: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        """Repeat a request until it is answered."""
        deadline = time.monotonic() + _PATIENCE_SECS
        while True:
            try:
                return self._client.expect(statuses, method, f"/v1/stream/{name}", body, **headers)
            except Unanswered as error:
                if time.monotonic() > deadline:
                    raise PromiseBroken(f"no answer for {_PATIENCE_SECS:g} s: {error}") from error
                time.sleep(_RETRY_SECS)


def message(key: str) -> dict[str, object]:
    """Make the insert of an entity that no other message has."""
    return {"type": "m", "key": key, "value": key, "headers": {"operation": "insert"}}


def keys_in(port: int, name: str) -> list[str]:
    """Read the keys of the messages of a stream. A stream that does not exist has none."""
    with closing(Client(port)) as client:
        if client.request("HEAD", f"/v1/stream/{name}").status == _NOT_FOUND:
            return []
        return [str(each["key"]) for page in client.pages(f"/v1/stream/{name}") for each in json.loads(page.body)]
