"""Plain appends, one request at a time for each stream.

Messages of a JSON stream that come while a request is under way go into the next one together. Each keeps its place.
Whoever sends a request for others finishes it, even if its own caller has gone.
"""

from asyncio import Event  # async only
from collections import deque
from collections.abc import Mapping

from everbrook.client._async.concurrency import (
    Lock,
    Task,  # async only
    spawn,  # async only
)
from everbrook.client._async.transport import AsyncTransport
from everbrook.client.content import Kind, join, kind_of
from everbrook.client.errors import AppendUncertain, NotAStream
from everbrook.protocol.errors import BadRequest, PayloadTooLarge

MAX_BATCH_BYTES = 1024 * 1024
MAX_BATCH_MESSAGES = 10_000
_INTERRUPTED = "whoever sent this message with others was interrupted: it may have been appended or not"


class _Waiting:
    """A message that waits for its turn, and what became of it."""

    def __init__(self, content_type: str, message: bytes) -> None:
        self.content_type = content_type
        self.message = message
        self.settled = False
        self.abandoned = False
        """Whether nobody waits for it any more. It is not sent, unless it is under way already."""
        self._offset = ""
        self._error: Exception | None = None
        self._event = Event()  # async only

    def settle(self, offset: str = "", error: Exception | None = None) -> None:
        """Say what became of it, if nobody has yet."""
        if not self.settled:
            self._offset, self._error, self.settled = offset, error, True
            self._event.set()  # async only

    async def result(self) -> str:
        await self._event.wait()  # async only
        if self._error is not None:
            raise self._error
        return self._offset


class AsyncAppender:
    """Everybody who appends to a stream through one handle."""

    def __init__(self, transport: AsyncTransport, url: str) -> None:
        self._transport = transport
        self._url = url
        self._turn = Lock()
        # Anybody adds to it; only who has the turn takes from it.
        self._waiting: deque[_Waiting] = deque()
        self._sender: Task | None = None  # async only

    async def append(self, content_type: str, message: bytes, headers: Mapping[str, str]) -> str:
        """Append a message, with what others have to append at the same time. Gives the offset behind them."""
        if headers or kind_of(content_type) is not Kind.JSON:
            async with self._turn:
                return await self.send(content_type, [message], headers)
        waiting = _Waiting(content_type, message)
        self._waiting.append(waiting)
        try:
            self._send_waiting()  # async only
            # sync only: self._send_until_settled(waiting)
            return await waiting.result()
        except BaseException:
            waiting.abandoned = True
            raise

    def _send_waiting(self) -> None:  # async only
        """Have what waits sent in a task of its own, which nobody's cancellation ends."""
        if self._sender is None or self._sender.done:
            self._sender = spawn(self._send_all, name=f"appends to {self._url}")

    async def _send_all(self) -> None:  # async only
        while self._waiting:
            async with self._turn:
                await self._send_batch(self._take_batch())

    # sync only: def _send_until_settled(self, waiting: _Waiting) -> None:
    # sync only:     """Send what waits, this message at last: whoever comes first sends for the others too."""
    # sync only:     with self._turn:
    # sync only:         while not waiting.settled:
    # sync only:             self._send_batch(self._take_batch())

    async def send(self, content_type: str, messages: list[bytes], headers: Mapping[str, str]) -> str:
        """Make one request."""
        response = await self._transport.request(
            "POST",
            self._url,
            headers={"Content-Type": content_type, **headers},
            content=join(kind_of(content_type), messages),
            attempts=self._transport.attempts(f"POST {self._url}", repeatable=False),
        )
        return offset_of(response.headers)

    def _take_batch(self) -> list[_Waiting]:
        """Take those who wait, in their order, up to a bound."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < MAX_BATCH_MESSAGES:
            waiting = self._waiting[0]
            size += len(waiting.message) + 1
            if batch and (size > MAX_BATCH_BYTES or waiting.content_type != batch[0].content_type):
                break
            self._waiting.popleft()
            if not waiting.abandoned:
                batch.append(waiting)
        return batch

    async def _send_batch(self, batch: list[_Waiting]) -> None:
        try:
            await self._send_together(batch)
        except Exception as error:  # noqa: BLE001 - each who waits is told
            for waiting in batch:
                waiting.settle(error=error)
        finally:
            for waiting in batch:
                waiting.settle(error=AppendUncertain(_INTERRUPTED))

    async def _send_together(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        try:
            offset = await self.send(batch[0].content_type, [waiting.message for waiting in batch], {})
        except (BadRequest, PayloadTooLarge):
            if len(batch) == 1:
                raise
            # Refused as a whole: nothing of it was written, and each can be told what is wrong with its own.
            for waiting in batch:
                await self._send_batch([waiting])
        else:
            for waiting in batch:
                waiting.settle(offset)


def offset_of(headers: Mapping[str, str]) -> str:
    """Give the offset that an answer to a write tells."""
    offset = headers.get("Stream-Next-Offset")
    if offset is None:
        raise NotAStream("the answer to an append has no Stream-Next-Offset: is this the URL of a stream?")
    return offset
