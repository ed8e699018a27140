"""Writers: each sends numbered messages in its own way, and knows after a kill what it may believe.

A writer is stepped by one thread at a time. A step is one request; if that stays unanswered the next step takes it up
again, as a client of that kind would.
"""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from soak.client import Answer, Client
from soak.ledger import Log, PromiseBroken, message, parse, parse_json, verify

_BYTES, _JSON = "application/octet-stream", "application/json"
_MAX_SMALL_BYTES = 200
_BULK_BYTES = 256 * 1024
_BULK_MESSAGES = 40
_BATCH = 3


class Writer(Protocol):
    """Something that writes and can tell whether the server kept its word to it."""

    def step(self, client: Client) -> None:
        """Make one request."""

    def check(self, client: Client) -> int:
        """Read back what should be there, and tell how many messages that were. `PromiseBroken` if not."""


def create(client: Client, path: str, content_type: str = _BYTES) -> None:
    """Make a stream, or find it as it should be."""
    client.expect({200, 201}, "PUT", path, content_type=content_type)


@dataclass
class SharedStream:
    """A stream that several producers write to."""

    path: str
    logs: list[Log] = field(default_factory=list)

    def check(self, client: Client) -> int:
        """Hold the whole stream against what its producers know."""
        content = b"".join(page.body for page in client.pages(self.path))
        return verify(parse(content), self.logs)


class IdempotentProducer:
    """Numbers its appends and repeats an unanswered one as it was: each of its messages is there exactly once."""

    def __init__(self, name: str, stream: SharedStream, random: Random) -> None:
        self._stream = stream
        self._random = random
        self._log = Log(name)
        stream.logs.append(self._log)
        self._epoch, self._first = 0, 0
        self._open: tuple[int, bytes] | None = None

    def step(self, client: Client) -> None:
        """Append the next message, or the one that stayed unanswered."""
        if self._open is None:
            number = self._log.send()
            self._open = number, message(self._log.writer, number, self._random.randrange(_MAX_SMALL_BYTES))
        number, body = self._open
        answer = self._append(client, {200, 204}, self._epoch, number - self._first, body)
        # A duplicate is acknowledged with the tail, which others may have moved on.
        self._log.acknowledge(number, answer.next_offset if answer.status == 200 else None)  # noqa: PLR2004 - §5.2.1
        self._open = None

    def _append(self, client: Client, expected: set[int], epoch: int, seq: int, body: bytes) -> Answer:
        claim = {"Producer_Id": self._log.writer, "Producer_Epoch": str(epoch), "Producer_Seq": str(seq)}
        return client.expect(expected, "POST", self._stream.path, body, content_type=_BYTES, **claim)

    def check(self, client: Client) -> int:
        """See that the server remembers this producer. The stream itself is checked for all of them."""
        if self._open is None and self._log.sent > self._first:
            last = self._log.sent - 1 - self._first
            self._append(client, {204}, self._epoch, last, b"a duplicate")
            self._append(client, {409}, self._epoch, last + 2, b"a gap")
            if self._epoch:
                self._append(client, {403}, self._epoch - 1, 0, b"of a stale epoch")
            if self._random.random() < 0.5:  # noqa: PLR2004 - every other time it begins a new epoch
                self._epoch, self._first = self._epoch + 1, self._log.sent
        return 0


class SequencedWriter:
    """Numbers its appends with Stream-Seq and repeats an unanswered one: a conflict tells that it is there."""

    def __init__(self, name: str, random: Random) -> None:
        self._path = f"/v1/stream/soak/{name}"
        self._log = Log(name)
        self._random = random
        self._open: tuple[int, bytes] | None = None
        self._created = False

    def step(self, client: Client) -> None:
        """Append the next message, or the one that stayed unanswered."""
        if not self._created:
            create(client, self._path)
            self._created = True
        repeated = self._open is not None
        if self._open is None:
            number = self._log.send()
            self._open = number, message(self._log.writer, number, self._random.randrange(_MAX_SMALL_BYTES))
        number, body = self._open
        statuses = {204, 409} if repeated else {204}
        answer = client.expect(statuses, "POST", self._path, body, content_type=_BYTES, Stream_Seq=f"{number:010d}")
        self._log.acknowledge(number, answer.next_offset if answer.status == 204 else None)  # noqa: PLR2004 - appended
        self._open = None

    def check(self, client: Client) -> int:
        """Hold the stream against the log, and see that its sequence is remembered."""
        if not self._created:
            return 0
        if self._log.acknowledged:
            last = f"{max(self._log.acknowledged):010d}"
            client.expect({409}, "POST", self._path, b"again", content_type=_BYTES, Stream_Seq=last)
        return verify(parse(b"".join(page.body for page in client.pages(self._path))), [self._log])


class BatchWriter:
    """Appends JSON batches as a producer: of a batch, all messages are there or none."""

    def __init__(self, name: str) -> None:
        self._path = f"/v1/stream/soak/{name}"
        self._log = Log(name)
        self._created = False
        self._open: int | None = None

    def step(self, client: Client) -> None:
        """Append the next batch, or the one that stayed unanswered."""
        if not self._created:
            create(client, self._path, _JSON)
            self._created = True
        if self._open is None:
            self._open = self._log.send()
            for _ in range(_BATCH - 1):
                self._log.send()
        numbers = range(self._open, self._open + _BATCH)
        body = json.dumps([{"writer": self._log.writer, "number": number} for number in numbers]).encode()
        claim = {"Producer_Id": "batches", "Producer_Epoch": "0", "Producer_Seq": str(self._open // _BATCH)}
        client.expect({200, 204}, "POST", self._path, body, content_type=_JSON, **claim)
        for number in numbers:
            self._log.acknowledge(number, None)
        self._open = None

    def check(self, client: Client) -> int:
        """Hold the stream against the log."""
        if not self._created:
            return 0
        count = verify(parse_json([page.body for page in client.pages(self._path)]), [self._log])
        if count % _BATCH:
            raise PromiseBroken(f"{self._path} holds {count} messages: a part of a batch of {_BATCH}")
        return count


@dataclass
class _Volume:
    """One stream of a bulk writer, and what of its end has been asked for and acknowledged."""

    path: str
    log: Log
    created: bool = False
    closing: bool = False
    closed: bool = False
    deleting: bool = False


class BulkWriter:
    """Fills a stream with large plain appends, closes it, deletes it and begins another one of the same name.

    It never repeats an append: what stays unanswered may be there or not.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._incarnation = 0
        self._volume = self._begin()

    def _begin(self) -> _Volume:
        self._incarnation += 1
        return _Volume(f"/v1/stream/soak/{self._name}", Log(f"{self._name}-{self._incarnation}"))

    def step(self, client: Client) -> None:
        """Create, append, close or delete."""
        volume = self._volume
        if not volume.created:
            create(client, volume.path)
            volume.created = True
        elif volume.log.sent < _BULK_MESSAGES:
            number = volume.log.send()
            body = message(volume.log.writer, number, _BULK_BYTES)
            answer = client.expect({204}, "POST", volume.path, body, content_type=_BYTES)
            volume.log.acknowledge(number, answer.next_offset)
        elif not volume.closed:
            volume.closing = True
            client.expect({204}, "POST", volume.path, Stream_Closed="true")
            volume.closed = True
        else:
            expected = {204, 404} if volume.deleting else {204}
            volume.deleting = True
            client.expect(expected, "DELETE", volume.path)
            self._volume = self._begin()

    def check(self, client: Client) -> int:
        """See the stream as it was left, or gone if that was acknowledged."""
        volume = self._volume
        head = client.request("HEAD", volume.path)
        if head.status == 404:  # noqa: PLR2004
            if volume.created and not volume.deleting:
                raise PromiseBroken(f"{volume.path} was created and never deleted, and is gone")
            return 0
        if not volume.created:
            self._check_fresh(head)
        closed = head.headers.get("stream-closed") == "true"
        if closed is not volume.closed and not (volume.closing and closed):
            raise PromiseBroken(f"{volume.path} must be {'closed' if volume.closed else 'open'}, and is not")
        return verify(parse(b"".join(page.body for page in client.pages(volume.path))), [volume.log])

    def _check_fresh(self, head: Answer) -> None:
        """A stream that nobody has seen created may only be there empty: its creation stayed unanswered."""
        if head.next_offset:
            raise PromiseBroken(f"{self._volume.path} was deleted and is there with {head.next_offset} bytes")


class Churner:
    """Creates small streams, closes every third, deletes every second, for ever: names, and what becomes of them."""

    def __init__(self, name: str, random: Random) -> None:
        self._prefix = f"/v1/stream/soak/{name}"
        self._random = random
        self._count = 0
        self._step = 0
        self._expected: dict[str, tuple[bool, bool]] = {}

    def step(self, client: Client) -> None:
        """Bring the newest stream one step further."""
        path = f"{self._prefix}/{self._count}"
        if self._step == 0:
            client.expect({200, 201}, "PUT", path, b"x" * 10, content_type=_BYTES)
            self._expected[path] = (True, False)
        elif self._step == 1 and self._count % 3 == 0:
            self._expected.pop(path, None)  # until the answer nobody knows
            client.expect({204}, "POST", path, Stream_Closed="true")
            self._expected[path] = (True, True)
        elif self._step == 2 and self._count % 2 == 0:  # noqa: PLR2004
            self._expected.pop(path, None)
            client.expect({204, 404}, "DELETE", path)
            self._expected[path] = (False, False)
        self._step = (self._step + 1) % 3
        self._count += self._step == 0

    def check(self, client: Client) -> int:
        """Look at streams of all ages."""
        paths = list(self._expected)
        for path in paths[-100:] + self._random.sample(paths, min(100, len(paths))):
            exists, closed = self._expected[path]
            answer = client.request("GET", path)
            if (answer.status != 404) is not exists:  # noqa: PLR2004
                raise PromiseBroken(f"{path} must be {'there' if exists else 'gone'}, the server says {answer.status}")
            if exists and (answer.body != b"x" * 10 or (answer.headers.get("stream-closed") == "true") is not closed):
                raise PromiseBroken(f"{path} must be {'closed' if closed else 'open'} with 10 bytes, got {answer}")
        return 0
