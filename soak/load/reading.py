"""`python -m soak.load.reading`: thousands of SSE readers in one process, each of which checks every message.

They print what they have seen as lines of JSON. When they are told on standard input how much was sent, they wait
until they have all of it, and end.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from typing import cast

import uvloop

from soak.load.messages import Findings, Sequel
from soak.load.options import HOST, ReaderOptions, raise_open_files, stream_path

TELL_SECS = 1.0
RECONNECT_SECS = 0.05
CONNECT_PER_TURN = 50
PATIENCE = 120
# What a server may answer under load, as documented.
REFUSALS = {429, 503}
_DATA = b"event: data\ndata:"
_ID = b"\nid: "


class Tally:
    """What all readers have come to."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.connected = 0
        self.dropped = 0
        self.resumed = 0
        self.refusals: Counter[int] = Counter()


class Reader(asyncio.Protocol):
    """Follows one stream. Whatever ends its response, it goes on from where it was."""

    def __init__(self, number: int, port: int, path: str, tally: Tally) -> None:
        self.number = number
        self._port, self._path, self._tally = port, path, tally
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._in_body = False
        self._offset = b"-1"
        self._leaving = False
        self.sequel = Sequel(tally.findings)

    async def connect(self) -> None:
        """Connect, for as long as it takes."""
        while True:
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, HOST, self._port)
            except OSError as error:
                self._tally.findings.add("refused connection", str(error))
                await asyncio.sleep(RECONNECT_SECS)
            else:
                return

    def drop(self) -> None:
        """Break the connection, as a network does."""
        if self._transport is not None:
            self._leaving = True
            self._tally.dropped += 1
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast("asyncio.Transport", transport)
        self._tally.connected += 1
        self._ask()

    def _ask(self) -> None:
        self._held, self._in_body = b"", False
        if self._transport is not None and not self._transport.is_closing():
            target = b"%b?offset=%b&live=sse" % (self._path.encode(), self._offset)
            self._transport.write(b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, HOST.encode()))

    def connection_lost(self, error: Exception | None) -> None:
        """Connect again. That a connection ends which nobody has dropped is a failure of the server."""
        self._transport = None
        self._tally.connected -= 1
        if not self._leaving:
            self._tally.findings.add("lost connection", f"reader {self.number}: {error!r}")
        self._leaving = False
        asyncio.get_running_loop().create_task(self.connect())

    def data_received(self, data: bytes) -> None:
        """Take a response apart, piece by piece."""
        self._held = self._held + data if self._held else data
        if not self._in_body and not self._take_head():
            return
        while (end := self._held.find(b"\r\n")) >= 0:
            size = int(self._held[:end], 16)
            after = end + 2 + size + 2
            if len(self._held) < after:
                return
            piece, self._held = self._held[end + 2 : after - 2], self._held[after:]
            if not size:
                self._tally.resumed += 1
                self._ask()
                return
            self._take(piece)

    def _take_head(self) -> bool:
        head, separator, rest = self._held.partition(b"\r\n\r\n")
        if not separator:
            return False
        status = int(head[9:12])
        if status != 200:  # noqa: PLR2004
            self._be_refused(status)
            return False
        self._held, self._in_body = rest, True
        return True

    def _be_refused(self, status: int) -> None:
        """Come back in a second: whatever was said is read by nobody."""
        if status in REFUSALS:
            self._tally.refusals[status] += 1
        else:
            self._tally.findings.add("refused", f"reader {self.number} was answered {status}")
        self._leaving = True
        if self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(0.5 + random.random(), self._transport.abort)  # noqa: S311

    def _take(self, piece: bytes) -> None:
        if piece.startswith(_DATA):
            end = piece.index(b"\n", len(_DATA))
            self.sequel.take(piece[len(_DATA) : end])
        at = piece.find(_ID)
        if at >= 0:
            self._offset = piece[at + len(_ID) : piece.index(b"\n", at + len(_ID))]


async def run(options: ReaderOptions) -> None:
    """Read until told to end."""
    tally, loop = Tally(), asyncio.get_running_loop()
    readers = [
        Reader(number, options.port, stream_path(number % options.streams), tally) for number in range(options.readers)
    ]
    for first in range(0, len(readers), CONNECT_PER_TURN):
        await asyncio.gather(*(reader.connect() for reader in readers[first : first + CONNECT_PER_TURN]))
    told = loop.run_in_executor(None, sys.stdin.readline)
    dice = random.Random(options.seed)  # noqa: S311 - it must replay
    while not told.done():
        tell(tally, readers)
        for reader in dice.sample(readers, min(options.drops_per_sec, len(readers))):
            reader.drop()
        await asyncio.sleep(TELL_SECS)
    await finish(tally, readers, json.loads(await told), options.streams)


async def finish(tally: Tally, readers: list[Reader], sent: list[int], streams: int) -> None:
    """Wait until every reader has all that was sent to its stream, and say whether it has."""
    behind = _behind(readers, sent, streams)
    for _ in range(PATIENCE):
        if not behind:
            break
        await asyncio.sleep(TELL_SECS)
        behind = _behind(readers, sent, streams)
    for reader in behind[:5]:
        tally.findings.add("behind", f"reader {reader.number} has {reader.sequel.next} at the end")
    tell(tally, readers, behind=len(behind), over=True)


def _behind(readers: list[Reader], sent: list[int], streams: int) -> list[Reader]:
    wanted = [
        {producer: count for producer, count in enumerate(sent) if producer % streams == stream and count}
        for stream in range(streams)
    ]
    return [reader for reader in readers if reader.sequel.next != wanted[reader.number % streams]]


def tell(tally: Tally, readers: list[Reader], *, behind: int = 0, over: bool = False) -> None:
    """Print what has come of it so far."""
    document = {
        "connected": tally.connected,
        "messages": sum(reader.sequel.seen for reader in readers),
        "dropped": tally.dropped,
        "resumed": tally.resumed,
        "refusals": tally.refusals,
        "findings": tally.findings.counts,
        "words": tally.findings.words,
        "behind": behind,
        "over": over,
    }
    print(json.dumps(document), flush=True)  # noqa: T201 - to the process that waits for it


def main() -> None:
    """Run as a program."""
    raise_open_files()
    options = ReaderOptions(*map(int, sys.argv[1:]))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(options))


if __name__ == "__main__":
    main()
