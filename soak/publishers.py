"""Writers whose streams let go of their past, for a snapshot or by a policy: exactly the rest must be left.

A snapshot is there whole or not at all, and nothing that it does not cover goes with it. A fork keeps what it began
with, whatever its source lets go of.
"""

import json
from dataclasses import dataclass
from random import Random

from soak.client import Client, Refused
from soak.ledger import Log, PromiseBroken, filler, message, parse, verify

_BYTES = "application/octet-stream"
_MAX_MESSAGE_BYTES = 2_000
_MAX_FORKS = 3
_PUBLISHED, _FORKED, _KEPT = 0.15, 0.2, 0.4


@dataclass(frozen=True, slots=True)
class Past:
    """What a stream has of its past: its bytes from `earliest` on, and before that a snapshot, if there is one."""

    earliest: int = 0
    offset: int | None = None
    snapshot: bytes = b""


def _offset(answer_headers: dict[str, str], name: str) -> int | None:
    value = answer_headers.get(name)
    return None if value is None else int(value)


def find_past(client: Client, path: str) -> Past:
    """Ask a server what it has of a stream's past. Nothing may publish to the stream meanwhile."""
    head = client.expect({200}, "HEAD", path).headers
    earliest, offset = _offset(head, "stream-earliest-offset") or 0, _offset(head, "stream-snapshot-offset")
    if offset is None:
        return Past(earliest)
    return Past(earliest, offset, client.expect({200}, "GET", f"{path}/snapshot/{offset:016d}").body)


def read_from(client: Client, path: str, earliest: int) -> bytes:
    """Read what a stream retains."""
    return b"".join(page.body for page in client.pages(path, f"{earliest:016d}"))


class SnapshotPublisher:
    """Appends to a stream in a bucket of its own, publishes snapshots of it, and forks it."""

    def __init__(self, name: str, random: Random, max_snapshot_bytes: int) -> None:
        self._bucket = f"/ds/soak-{name}"
        self._path = f"{self._bucket}/log"
        self._random = random
        self._max_snapshot_bytes = max_snapshot_bytes
        self._log = Log(name)
        self._created = False
        self._tail = 0
        self._past = Past()
        self._open: Past | None = None
        self._published = 0
        self._forked = 0
        self._forks: dict[str, tuple[Past, bytes]] = {}

    def step(self, client: Client) -> None:
        """Create, append, publish or fork."""
        if not self._created:
            client.expect({201, 409}, "PUT", self._bucket)
            client.expect({200, 201}, "PUT", self._path, content_type=_BYTES)
            self._created = True
            return
        draw = self._random.random()
        if draw < _PUBLISHED:
            self._publish(client)
        elif draw < _FORKED:
            self._fork(client)
        else:
            self._append(client)

    def _append(self, client: Client) -> None:
        number = self._log.send()
        body = message(self._log.writer, number, self._random.randrange(_MAX_MESSAGE_BYTES))
        answer = client.expect({204}, "POST", self._path, body, content_type=_BYTES)
        self._tail = answer.next_offset
        self._log.acknowledge(number, self._tail)

    def _publish(self, client: Client) -> None:
        """Publish a snapshot of everything that was acknowledged."""
        self._published += 1
        body = filler(self._published, self._random.randrange(self._max_snapshot_bytes))
        kept = self._random.random() < _KEPT
        self._open = Past(self._past.earliest if kept else self._tail, self._tail, body)
        history = {"Stream_Snapshot_History": "keep"} if kept else {}
        client.expect({204}, "PUT", f"{self._path}/snapshot/{self._tail:016d}", body, content_type=_BYTES, **history)
        self._past, self._open = self._open, None

    def _fork(self, client: Client) -> None:
        """Fork the stream and remember what the fork has, or delete the oldest fork."""
        if len(self._forks) == _MAX_FORKS:
            path = next(iter(self._forks))
            del self._forks[path]
            client.expect({204}, "DELETE", path)
            return
        self._forked += 1
        path = f"{self._bucket}/fork-{self._forked}"
        client.expect({201}, "PUT", path, content_type=_BYTES, Stream_Forked_From=self._path)
        self._forks[path] = self._look(client, path)

    def _look(self, client: Client, path: str) -> tuple[Past, bytes]:
        past = find_past(client, path)
        return past, read_from(client, path, past.earliest)

    def check(self, client: Client) -> int:
        """See that the past is the acknowledged one or the one asked for last, and the rest is what was sent."""
        if not self._created:
            return 0
        found = find_past(client, self._path)
        if found not in {self._past, self._open}:
            raise PromiseBroken(
                f"{self._path} begins at {found.earliest} with {len(found.snapshot)} bytes of a snapshot at "
                f"{found.offset}; acknowledged was {self._past.earliest} with {len(self._past.snapshot)} bytes "
                f"at {self._past.offset}"
            )
        self._past, self._open = found, None
        self._check_forks(client)
        self._check_listing(client)
        content = read_from(client, self._path, found.earliest)
        return verify(parse(content, found.earliest), [self._log.since(found.earliest)])

    def _check_forks(self, client: Client) -> None:
        for path, expected in self._forks.items():
            if self._look(client, path) != expected:
                raise PromiseBroken(f"{path} has something else than it began with")

    def _check_listing(self, client: Client) -> None:
        listed = json.loads(client.expect({200}, "GET", f"{self._bucket}/streams").body)["streams"]
        offsets = {f"{self._bucket}/{each['stream_id']}": each["snapshot_offset"] for each in listed}
        missing = [path for path in (self._path, *self._forks) if path not in offsets]
        if missing or offsets[self._path] != self._past.offset:
            raise PromiseBroken(f"{self._bucket} is listed as {offsets}, {missing} are missing")


class PolicyWriter:
    """Appends to a stream whose policy retains a few messages: those must be the last ones."""

    def __init__(self, name: str, random: Random, max_messages: int = 25) -> None:
        self._path = f"/v1/stream/soak/{name}"
        self._policy = f"max-messages={max_messages}"
        self._random = random
        self._log = Log(name)
        self._created = False
        self._earliest = 0

    def step(self, client: Client) -> None:
        """Create or append."""
        if not self._created:
            client.expect({200, 201}, "PUT", self._path, content_type=_BYTES, Stream_Retention=self._policy)
            self._created = True
        number = self._log.send()
        body = message(self._log.writer, number, self._random.randrange(_MAX_MESSAGE_BYTES))
        answer = client.expect({204}, "POST", self._path, body, content_type=_BYTES)
        self._log.acknowledge(number, answer.next_offset)

    def check(self, client: Client) -> int:
        """See that nothing that was cut came back, and nothing else is missing."""
        if not self._created:
            return 0
        head = client.expect({200}, "HEAD", self._path).headers
        if head.get("stream-retention") != self._policy:
            raise PromiseBroken(f"{self._path} has the policy {head.get('stream-retention')}, not {self._policy}")
        earliest, content = self._read(client)
        if earliest < self._earliest:
            raise PromiseBroken(f"{self._path} began at {self._earliest}, and begins at {earliest} again")
        self._earliest = earliest
        return verify(parse(content, earliest), [self._log.since(earliest)])

    def _read(self, client: Client) -> tuple[int, bytes]:
        """Read what is retained. It may be cut meanwhile: then once more."""
        while True:
            head = client.expect({200}, "HEAD", self._path).headers
            earliest = _offset(head, "stream-earliest-offset") or 0
            try:
                return earliest, read_from(client, self._path, earliest)
            except Refused:
                if earliest <= self._earliest:
                    raise
                self._earliest = earliest
