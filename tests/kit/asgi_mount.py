"""The application under uvicorn, alone or mounted in another one, in a thread of this process."""

import asyncio
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn

from everbrook.engine import Engine
from everbrook.server.asgi import AsgiApplication
from everbrook.storage import Storage
from tests.kit.server_thread import PATIENCE_SECS, eventually
from tests.kit.wire import Wire

T = TypeVar("T")


class Mounted:
    """A uvicorn that serves `outer`, in which `streams` is mounted, for as long as the context lasts."""

    def __init__(
        self,
        streams: AsgiApplication,
        outer: Any,  # noqa: ANN401 - uvicorn's own
        storage: Storage | None = None,
        /,
        **options: Any,  # noqa: ANN401 - uvicorn's own
    ) -> None:
        """Serve `outer`. `storage` is the one that `streams` opens, for tests that inspect it."""
        self.streams = streams
        self.storage = storage
        # A test may be busy for longer than the 5 seconds after which uvicorn closes a connection that is idle.
        options = {"timeout_graceful_shutdown": 1, "timeout_keep_alive": 600} | options
        config = uvicorn.Config(outer, log_level="error", **options)
        self.uvicorn = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self.uvicorn.serve([self._socket])

        asyncio.run(serve())

    def __enter__(self) -> Self:
        self._thread.start()
        assert eventually(lambda: self.uvicorn.started), "uvicorn did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        self.uvicorn.should_exit = True
        self._thread.join()
        self._socket.close()

    def connect(self, receive_buffer_bytes: int | None = None) -> Wire:
        return Wire(self.address, receive_buffer_bytes)

    @property
    def origin(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    # Looking inside

    @property
    def engine(self) -> Engine:
        assert self.streams.application is not None, "nothing has started the engine"
        return self.streams.application.engine

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the server's thread."""

        async def run() -> T:
            return function()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_SECS)

    def waiting(self, path: str) -> int:
        """How many readers wait at the tail of a stream, which is named without the mount."""
        engine = self.engine
        return self.call(lambda: len(engine.readers.find(path.encode(), engine.clock.now()).feed or ()))

    def tasks(self) -> int:
        return self.call(lambda: len(asyncio.all_tasks()))
