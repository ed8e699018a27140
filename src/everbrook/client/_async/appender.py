"""Plain appends: one request at a time for each stream.

JSON messages that arrive during a request are sent together with the next one, in their order. A batch is sent to its
end even if the caller that began it was cancelled.
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
_INTERRUPTED = "the request with this message was interrupted: the message may have been appended or not"


class _QueuedAppend:
    """A queued message and its outcome."""

    def __init__(self, content_type: str, message: bytes) -> None:
        self.content_type = content_type
        self.message = message
        self.settled = False
        self.abandoned = False
        """Whether its caller has left. It is not sent then, unless it is under way already."""
        self._offset = ""
        self._error: Exception | None = None
        self._event = Event()  # async only

    def settle(self, offset: str = "", error: Exception | None = None) -> None:
        """Set the outcome, unless it is set already."""
        if not self.settled:
            self._offset, self._error, self.settled = offset, error, True
            self._event.set()  # async only

    async def result(self) -> str:
        await self._event.wait()  # async only
        if self._error is not None:
            raise self._error
        return self._offset


class AsyncAppender:
    """The queue of appends that are made through one handle of a stream."""

    def __init__(self, transport: AsyncTransport, url: str) -> None:
        self._transport = transport
        self._url = url
        self._turn = Lock()
        # Any caller adds to it; only the holder of the lock takes from it.
        self._waiting: deque[_QueuedAppend] = deque()
        self._sender: Task | None = None  # async only

    async def append(self, content_type: str, message: bytes, headers: Mapping[str, str]) -> str:
        """Append a message, together with others that wait. Returns the offset after them."""
        if headers or kind_of(content_type) is not Kind.JSON:
            async with self._turn:
                return await self.send(content_type, [message], headers)
        waiting = _QueuedAppend(content_type, message)
        self._waiting.append(waiting)
        try:
            self._send_waiting()  # async only
            # sync only: self._send_until_settled(waiting)
            return await waiting.result()
        except BaseException:
            waiting.abandoned = True
            raise

    def _send_waiting(self) -> None:  # async only
        """Send the queue in a task of its own, so that a cancelled caller does not interrupt the messages of others."""
        if self._sender is None or self._sender.done:
            self._sender = spawn(self._send_all, name=f"appends to {self._url}")

    async def _send_all(self) -> None:  # async only
        while self._waiting:
            async with self._turn:
                await self._send_batch(self._take_batch())

    # sync only: def _send_until_settled(self, waiting: _QueuedAppend) -> None:
    # sync only:     """Send the queue until this message is settled: the holder of the lock sends for all."""
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

    def _take_batch(self) -> list[_QueuedAppend]:
        """Take the next batch, in the order of the queue and bounded in size."""
        batch: list[_QueuedAppend] = []
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

    async def _send_batch(self, batch: list[_QueuedAppend]) -> None:
        try:
            await self._send_together(batch)
        except Exception as error:  # noqa: BLE001 - each who waits is told
            for waiting in batch:
                waiting.settle(error=error)
        finally:
            # Reached unsettled only if this was cancelled or interrupted: nobody may wait for ever.
            for waiting in batch:
                waiting.settle(error=AppendUncertain(_INTERRUPTED))

    async def _send_together(self, batch: list[_QueuedAppend]) -> None:
        if not batch:
            return
        try:
            offset = await self.send(batch[0].content_type, [waiting.message for waiting in batch], {})
        except (BadRequest, PayloadTooLarge):
            if len(batch) == 1:
                raise
            # The server refused the batch as a whole and wrote nothing: sent alone, each message gets its own response.
            for waiting in batch:
                await self._send_batch([waiting])
        else:
            for waiting in batch:
                waiting.settle(offset)


def offset_of(headers: Mapping[str, str]) -> str:
    """Return the offset in the response to an append."""
    offset = headers.get("Stream-Next-Offset")
    if offset is None:
        raise NotAStream("the response to an append has no Stream-Next-Offset: is this the URL of a stream?")
    return offset
