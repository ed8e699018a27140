"""The streams of the subscription soak: producers that append numbered messages, and reading them back."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from soak.client import Client
from soak.ledger import Found, Log, message, parse, verify
from soak.subscriptions.moments import Moments

_BYTES = "application/octet-stream"
_MAX_MESSAGE_BYTES = 60
_NEW_SHARE = 0.15
_WITH_BODY_SHARE = 0.5
# A pause after each step, so that subscriptions come to rest, and wake again, all the time.
_MAX_PAUSE_SECS = 0.03

Linker = Callable[[Client, str], None]


@dataclass
class Stream:
    """A stream with one producer, which knows what it sent."""

    path: str
    log: Log = field(default_factory=lambda: Log("event"))
    created: bool = False
    open: bytes | None = None
    first: int = 0
    """The number of the first message that is appended: one with which the stream was created has no producer."""


def read_messages(client: Client, url: str, after: int) -> list[Found]:
    """Read a stream from an offset on; every byte is checked."""
    content = b"".join(page.body for page in client.pages(url, f"{after:016d}" if after >= 0 else "-1"))
    return list(parse(content, max(0, after)))


class Producer:
    """Creates streams and appends to them, exactly once. What stays unanswered it asks for again."""

    def __init__(
        self,
        root: str,
        names: Callable[[int], str],
        limit: int,
        moments: Moments,
        random: Random,
        *,
        link: Linker | None = None,
    ) -> None:
        """Make at most `limit` streams, called by `names`. `link` is done to each before anything is in it."""
        self._root, self._names, self._limit = root, names, limit
        self._moments, self._random, self._link = moments, random, link
        self._lock = threading.Lock()
        self._streams: list[Stream] = []
        self._current: Stream | None = None

    @property
    def streams(self) -> list[Stream]:
        """The streams that are there by now, or may be."""
        with self._lock:
            return list(self._streams)

    def step(self, client: Client) -> None:
        """Make one request, or the one again that stayed unanswered."""
        stream = self._current = self._current or self._choose()
        if stream.created:
            self._append(client, stream)
        else:
            self._create(client, stream)
        self._current = None
        self._moments.reach("append")
        time.sleep(self._random.uniform(0, _MAX_PAUSE_SECS))

    def _choose(self) -> Stream:
        full = len(self._streams) == self._limit
        if self._streams and (full or self._random.random() > _NEW_SHARE):
            return self._random.choice(self._streams)
        stream = Stream(self._names(len(self._streams)))
        if self._link is None and self._random.random() < _WITH_BODY_SHARE:
            stream.open, stream.first = self._next_message(stream), 1
        with self._lock:
            self._streams.append(stream)
        return stream

    def _next_message(self, stream: Stream) -> bytes:
        return message(stream.log.writer, stream.log.send(), self._random.randrange(_MAX_MESSAGE_BYTES))

    def _create(self, client: Client, stream: Stream) -> None:
        client.expect({200, 201}, "PUT", f"{self._root}/{stream.path}", stream.open, content_type=_BYTES)
        if self._link:
            self._link(client, stream.path)
        if stream.open:
            stream.log.acknowledge(0, None)
        stream.created, stream.open = True, None

    def _append(self, client: Client, stream: Stream) -> None:
        stream.open = stream.open or self._next_message(stream)
        number = stream.log.sent - 1
        claim = {"Producer_Id": "soak", "Producer_Epoch": "0", "Producer_Seq": str(number - stream.first)}
        client.expect({200, 204}, "POST", f"{self._root}/{stream.path}", stream.open, content_type=_BYTES, **claim)
        stream.log.acknowledge(number, None)
        stream.open = None

    def check(self, client: Client) -> dict[str, list[int]]:
        """Hold the streams against what was sent, and give where the messages of each end."""
        ends: dict[str, list[int]] = {}
        for stream in self.streams:
            if stream.created:
                found = read_messages(client, f"{self._root}/{stream.path}", -1)
                verify(iter(found), [stream.log])
                ends[stream.path] = [each.end for each in found if each.end is not None]
        return ends
