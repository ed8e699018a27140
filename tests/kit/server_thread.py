"""A server in a thread of this process: its own loop and real sockets, and its inside can be looked at."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import uvloop
from msgspec.structs import replace

from everbrook.engine import Clock, Engine, Stream
from everbrook.protocol import Change
from everbrook.server.application import Application
from everbrook.server.assembly import assemble
from everbrook.server.exchange import Deferred
from everbrook.server.http1.connection import Connection
from everbrook.server.http1.listener import Listener
from everbrook.server.http1.state import ConnectionInspection
from everbrook.server.tuning import DEFAULT_TUNING, ListenerTuning, ServerTuning
from everbrook.settings import Settings, StorageMode, StorageSettings
from everbrook.storage import MemoryStorage, Storage
from tests.kit.wire import Wire

T = TypeVar("T")

HOST = "127.0.0.1"
PATIENCE_SECS = 60.0
STOP_GRACE_SECS = 0.2

QUICK_TICKS = ServerTuning(listener=ListenerTuning(tick_secs=0.02))
"""The tuning of servers that check their connections often, so that short timeouts are kept."""


def configured(**values: object) -> Settings:
    """Give settings with some values changed: `limits__max_append_bytes=10`. Streams are kept in memory.

    Whoever runs the tests may have a store of their own in the folder of the project.
    """
    settings = replace(Settings(), storage=StorageSettings(mode=StorageMode.MEMORY, allow_unused_store=True))
    for name, value in values.items():
        section, key = name.split("__")
        settings = replace(settings, **{section: replace(getattr(settings, section), **{key: value})})
    return settings


def eventually(claim: Callable[[], object], patience_secs: float = PATIENCE_SECS) -> bool:
    """Whether a claim becomes true in good time."""
    deadline = time.monotonic() + patience_secs
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def resident_bytes() -> int:
    """How much memory this process, which is the server and its clients, takes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class GatedStorage(MemoryStorage):
    """A storage whose disk is as slow as the test wants: nothing becomes durable until the gate opens."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.failure: OSError | None = None

    def persist(self, group: Sequence[Change]) -> None:  # noqa: ARG002 - they are kept when they are applied
        assert self.gate.wait(PATIENCE_SECS), "nobody opened the gate"
        if self.failure:
            raise self.failure


class RunningServer:
    """The HTTP/1.1 server, for as long as the context lasts."""

    application: Application
    listener: Listener

    def __init__(
        self,
        settings: Settings,
        storage: Storage | None = None,
        tuning: ServerTuning = DEFAULT_TUNING,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self.storage = storage or MemoryStorage()
        self._tuning = tuning
        self._clock = clock
        self.loop = uvloop.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.address = (HOST, 0)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECS), "the server did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, and wait until it has stopped."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    async def _serve(self) -> None:
        self.application = assemble(self._settings, self.storage, self._tuning, self._clock)
        self.listener = Listener(self.application)
        (self.address,) = await self.listener.listen(HOST, 0)
        self._ready.set()
        await self._stop.wait()
        self.application.stop()
        await self.listener.stop(STOP_GRACE_SECS)
        await self.application.close()

    def connect(self, receive_buffer_bytes: int | None = None) -> Wire:
        return Wire(self.address, receive_buffer_bytes)

    @property
    def origin(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    @property
    def engine(self) -> Engine:
        return self.application.engine

    # Looking inside

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the server's thread, between two things that it does."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_SECS)

    @property
    def connections(self) -> list[Connection]:
        return self.call(lambda: list(self.listener.connections))

    def find(self, claim: Callable[[ConnectionInspection], object]) -> list[Connection]:
        """Give the connections of whose state a claim is true."""
        return self.call(lambda: [each for each in self.listener.connections if claim(each.inspect())])

    @property
    def answering(self) -> list[Deferred]:
        """The answers that wait for something, or are given piece by piece."""
        return self.call(lambda: [held[0] for each in self.listener.connections if (held := each.responder.answering)])

    def stream(self, path: str) -> Stream:
        """A stream as the engine has it."""
        return self.call(lambda: self.engine.readers.find(path.encode(), self.engine.clock.now()))

    def waiting(self, path: str) -> int:
        """How many readers wait at the tail of a stream."""
        stream = self.stream(path)
        return self.call(lambda: len(stream.feed or ()))

    def unsent_bytes(self) -> int:
        """How much the server holds for clients that do not read."""
        return self.call(lambda: sum(held.unsent_bytes for held in self.listener.connections))

    @property
    def running(self) -> bool:
        """Whether the server has not stopped."""
        return self._thread.is_alive()
