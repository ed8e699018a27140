"""The load: numbered messages for several streams the whole time, a few at a time and in bursts.

Whatever stays unanswered is sent again under the same number of its producer, so each is in its stream once, and what
was sent is what went in.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

from soak.client import Client, Unanswered
from soak.ledger import PromiseBroken
from soak.server import HOST
from soak.spark.cases import FEW, MANY

MANY_STREAMS, FEW_STREAMS, FIRST_STREAMS = 12, 6, 4
_RETRY_SECS = 0.02
_BURST_SHARE = 0.01
_NEW_STREAM_SHARE = 0.01
_MAX_PAUSE_SECS = 0.08
_PATIENCE_SECS = 60.0
_JSON = "application/json"
_NOT_FOUND = 404


@dataclass(slots=True)
class Source:
    """A stream, how many messages it has, and in how many appends."""

    name: str
    sent: int = 0
    appends: int = 0


class Load:
    """Appends in a thread of its own, from `with` until `stop`."""

    def __init__(self, port: int, random: Random) -> None:
        self.url = f"http://{HOST}:{port}"
        self.sources: dict[str, list[Source]] = {MANY: [], FEW: []}
        self._client = Client(port)
        self._random = random
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        for prefix in self.sources:
            for _ in range(FIRST_STREAMS):
                self._create(prefix)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def stop(self) -> None:
        """Append no more."""
        self._stop.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what went wrong."""
        if self._failure is not None:
            raise self._failure

    def sent(self, prefix: str) -> int:
        """Tell how many messages there are in the streams of a prefix."""
        return sum(source.sent for source in self.sources[prefix])

    def _run(self) -> None:
        with closing(self._client):
            try:
                while not self._stop.is_set():
                    self._step()
                    self._stop.wait(self._random.uniform(0, _MAX_PAUSE_SECS))
            except Exception as error:  # noqa: BLE001 - the thread that waits raises it
                self._failure = error

    def _step(self) -> None:
        random, many, few = self._random, self.sources[MANY], self.sources[FEW]
        for prefix, most in ((MANY, MANY_STREAMS), (FEW, FEW_STREAMS)):
            if len(self.sources[prefix]) < most and random.random() < _NEW_STREAM_SHARE:
                self._create(prefix)
        self._append(random.choice(few), 1)
        if random.random() < _BURST_SHARE:
            for source in many:
                self._append(source, random.randrange(200, 900))
            return
        for source in random.sample(many, random.randrange(1, 3)):
            self._append(source, random.randrange(1, 4))

    def _create(self, prefix: str) -> None:
        source = Source(f"{prefix}{len(self.sources[prefix])}")
        self._insist("PUT", source.name, None)
        self.sources[prefix].append(source)

    def _append(self, source: Source, count: int) -> None:
        numbers = range(source.sent, source.sent + count)
        body = json.dumps([message(source.name, number) for number in numbers]).encode()
        claim = {"Producer_Id": "load", "Producer_Epoch": "0", "Producer_Seq": str(source.appends)}
        self._insist("POST", source.name, body, **claim)
        source.appends += 1
        source.sent += count

    def _insist(self, method: str, name: str, body: bytes | None, **claim: str) -> None:
        """Ask until there is an answer."""
        deadline = time.monotonic() + _PATIENCE_SECS
        while True:
            try:
                self._client.expect({200, 201, 204}, method, f"/v1/stream/{name}", body, content_type=_JSON, **claim)
            except Unanswered as error:
                if time.monotonic() > deadline:
                    raise PromiseBroken(f"no answer for {_PATIENCE_SECS:g} s: {error}") from error
                time.sleep(_RETRY_SECS)
            else:
                return


def message(source: str, number: int) -> dict[str, object]:
    """Make a message that says where it comes from, and as the how many-th."""
    return {"from": source, "n": number, "room": "x" * (number * 7919 % 90)}


def read(client: Client, name: str) -> Iterator[dict[str, object]]:
    """Read a stream of such messages, which are lines in a stream of text. One that is not there has none."""
    head = client.request("HEAD", f"/v1/stream/{name}")
    if head.status == _NOT_FOUND:
        return
    pages = (page.body for page in client.pages(f"/v1/stream/{name}"))
    if head.headers["content-type"] == _JSON:
        for page in pages:
            yield from json.loads(page)
    else:
        yield from map(json.loads, b"".join(pages).splitlines())
