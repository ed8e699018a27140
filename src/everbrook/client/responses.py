"""Responses of FastAPI and Starlette that stream an answer of a model, which continues if the browser reloads.

    @app.post("/chat/{id}")
    async def ask(id: str, question: Question):
        return DurableResponse(lambda: answer(question), client.stream(f"answers/{id}"))

    @app.get("/chat/{id}")
    async def resume(id: str, request: Request):
        return DurableResponse.resume(client.stream(f"answers/{id}"), request)

The rule: a response only reads. The generation writes to the stream in the background, whether it has readers or not.

Each message is a Server-Sent Event whose id is the position after it; the last event is `end`. An `EventSource` sends
the last id when it reconnects, and gets status 204 when the answer is complete.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from math import inf
from time import monotonic
from typing import Any, ClassVar, Self, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from everbrook.client._async.recorder import Recording
from everbrook.client._async.sources import AsyncSource
from everbrook.client._async.stream import AsyncStream
from everbrook.client.content import Kind
from everbrook.client.errors import StreamRewound
from everbrook.client.generation import GenerationAbandoned, generate
from everbrook.client.model_events import encode_event, encode_failure_discreetly
from everbrook.client.page import Page
from everbrook.client.recipes import ui_messages
from everbrook.protocol.errors import (
    BadRequest,
    IncarnationMismatch,
    InvalidOffset,
    NotFound,
    OffsetGone,
    ProtocolError,
    StreamClosed,
    StreamGone,
)
from everbrook.protocol.json_text import split_array
from everbrook.protocol.sse import KEEP_ALIVE, Event, encode_base64, encode_event as encode_sse

NO_CONTENT = 204
RETRY = b"retry: 1000\n\n"
_THE_READERS_OWN = (NotFound, BadRequest, OffsetGone, StreamGone)
_EVENT_ID = re.compile(r"([^~,/@\s]{1,256})(?:@([^~,/@\s]{1,64}))?(?:~(\d{1,9}|end))?")
_END = "end"


class EventId(Struct, frozen=True):
    """The id of an event: the place after its message, which a reader sends back to continue there.

    Every server has an offset between pages, and only some have one between messages. So an id is an offset and the
    number of messages after it that the reader has: `0000000000000042`, or `0000000000000042~3` within a page. After
    the end of a closed stream it is `0000000000000042~end`, and its reader knows that no more messages will follow.
    If the server returns the incarnation of the stream, it is part of the id (`0000000000000042@6a1c~3`), and a reader
    that returns after the stream was created again is refused.
    """

    offset: str = "-1"
    passed: int = 0
    ended: bool = False
    incarnation: str = ""

    def __str__(self) -> str:
        """Format the id for `parse_event_id`."""
        behind = _END if self.ended else self.passed
        return f"{self.kept}~{behind}" if behind else self.kept

    @property
    def kept(self) -> str:
        """The offset, with the incarnation of the stream if that is known: where `follow` begins."""
        return f"{self.offset}@{self.incarnation}" if self.incarnation else self.offset


def parse_event_id(text: str) -> EventId:
    """Parse an id that a reader sent back."""
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        raise InvalidOffset(
            f"an event id must be an offset, or an offset, '~' and a number of messages, got {text!r:.80}"
        )
    offset, incarnation, behind = found.groups(default="")
    ended = behind == _END
    return EventId(offset, 0 if ended else int(behind or 0), ended, incarnation)


def messages_of(page: Page) -> list[bytes]:
    """Return the messages of a JSON page byte for byte. Another page is one message, in base64 if it is binary."""
    if not page.data:
        return []
    if page.kind is Kind.JSON:
        return [bytes(message) for message in split_array(page.data)]
    return [page.data if page.kind is Kind.TEXT else encode_base64(page.data)]


class Resumed:
    """Skips the messages that a reader has already, and makes the event id of each new one."""

    def __init__(self, position: EventId) -> None:
        self.position = position
        self._to_pass = position.passed

    def take(self, page: Page) -> Iterator[tuple[EventId, bytes]]:
        """Yield the new messages of the next page, each with its event id."""
        messages = messages_of(page)
        for count, message in enumerate(messages, 1):
            last = count == len(messages)
            offset, passed = (page.next_offset, 0) if last else (page.offset, count)
            self.position = EventId(offset, passed, incarnation=page.incarnation or self.position.incarnation)
            if self._to_pass:
                self._to_pass -= 1
            else:
                yield self.position, message


class Options(TypedDict, total=False):
    """The options of every response."""

    location: str
    """The `Location` for readers, by default the URL of the stream."""
    abandoned_after_secs: float
    """The time without a message after which the stream is closed with an error, because the process of the generation
    seems to be gone. It must be longer than any pause of the model: closing the stream stops a generation that runs."""
    headers: Mapping[str, str]
    background: BackgroundTask


class DurableResponse(StreamingResponse):
    """Starts the generation of an answer, unless it was started before, and streams its messages.

    `events` are a source as in `tee`; a function is called only if this response starts the generation. The response
    creates the stream, which has this one answer. With `ttl_secs` the stream expires after so long without a read.
    `Location` names the stream, and `Stream-Offset` is where this response begins in it.
    """

    _start: Callable[[], Awaitable[None]] | None
    _sent: str | None
    keep_alive_secs: ClassVar[float] = 15.0
    own_headers: ClassVar[Mapping[str, str]] = {
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
        "Access-Control-Expose-Headers": "Location, Stream-Offset",
    }

    def __init__(
        self,
        events: AsyncSource[Any],
        stream: AsyncStream[Any],
        *,
        encode: Callable[[Any], object] = encode_event,
        encode_error: Callable[[BaseException], object] | None = None,
        ttl_secs: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Respond with events, which are recorded in a stream."""
        recording = Recording(encode, encode_error or self.encode_error)

        async def start() -> None:
            await generate(events, stream, recording, ttl_secs=ttl_secs)

        self._prepare(stream, options)
        self._start = start

    @classmethod
    def resume(cls, stream: AsyncStream[Any], request: Request, **options: Unpack[Options]) -> Self:
        """Respond with the messages after `Last-Event-ID` or the parameter `offset`, or with all, and follow."""
        response = cls.__new__(cls)
        sent = request.headers.get("Last-Event-ID") or request.query_params.get("offset")
        cls._prepare(response, stream, options, sent)
        return response

    def _prepare(self, stream: AsyncStream[Any], options: Options, sent: str | None = None) -> None:
        if not isinstance(stream, AsyncStream):
            raise TypeError(f"stream must be a stream of an AsyncClient, got {stream!r}")
        self._stream = stream
        self._start = None
        self._sent = sent
        self._abandoned_after_secs = options.get("abandoned_after_secs", inf)
        headers = {**self.own_headers, "Location": options.get("location") or stream.url, **options.get("headers", {})}
        super().__init__((), headers=headers, media_type="text/event-stream", background=options.get("background"))

    @staticmethod
    def encode_error(error: BaseException) -> bytes:
        """Encode the error that ended the generation, without its text, which a browser must not see."""
        return encode_failure_discreetly(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond. Errors before the first page are raised to the endpoint; later ones end the response."""
        if self._start is not None:
            await self._start()
        try:
            position = EventId() if not self._sent else parse_event_id(self._sent)
            async with aclosing(self._stream.follow(position.kept).pages()) as pages:
                first = await anext(pages)
                if self._start is None and await self._over(first, position):
                    await Response(status_code=NO_CONTENT)(scope, receive, send)
                else:
                    self.headers["Stream-Offset"] = position.offset
                    async with aclosing(self._events(Resumed(position), first, pages)) as self.body_iterator:
                        await _unless_left(self.stream_response(send), receive)
        except (*_THE_READERS_OWN, StreamRewound) as error:
            if self._start is not None or "Stream-Offset" in self.headers:
                raise
            refusal = IncarnationMismatch(str(error)) if isinstance(error, StreamRewound) else error
            await self.refusal(refusal)(scope, receive, send)
        if self.background is not None:
            await self.background()

    async def _over(self, first: Page, position: EventId) -> bool:
        """Return whether a reader that reconnects has read everything, including the end."""
        return first.closed and position.ended

    def refusal(self, refusal: ProtocolError) -> Response:
        """Make the response for a reader that reconnects to a stream that does not exist any more, or never did."""
        problem = {"status": refusal.status, "code": refusal.code, "detail": refusal.detail}
        return JSONResponse(problem, refusal.status, media_type="application/problem+json")

    async def _events(
        self, resumed: Resumed, first: Page, pages: AsyncGenerator[Page, None]
    ) -> AsyncGenerator[bytes, None]:
        yield self.beginning()
        page: Page | None = first
        while page is not None:
            written = [self.event(position, message) for position, message in resumed.take(page)]
            if page.closed:
                written.append(self.ending(resumed.position))
            if written:
                yield b"".join(written)
            coming = asyncio.ensure_future(anext(pages, None))
            async with aclosing(self._signs_of_life(coming)) as signs:
                async for sign in signs:
                    yield sign
            page = coming.result()

    async def _signs_of_life(self, coming: "asyncio.Future[Any]") -> AsyncGenerator[bytes, None]:
        """Send keep-alive comments until the next page comes."""
        began = monotonic()
        try:
            while not (await asyncio.wait({coming}, timeout=min(self.keep_alive_secs, self._abandoned_after_secs)))[0]:
                if monotonic() - began >= self._abandoned_after_secs:
                    await self._abandon()
                yield KEEP_ALIVE
        finally:
            # A generator can't be closed while it runs, so this waits until the task has left it.
            coming.cancel()
            await asyncio.wait({coming})

    async def _abandon(self) -> None:
        # Another response may have closed the stream, or the generation has just ended.
        with suppress(StreamClosed):
            await self._stream.close(
                self.encode_error(GenerationAbandoned("the generation wrote no message for too long"))
            )

    def beginning(self) -> bytes:
        """Encode the beginning: the delay after which a reader reconnects."""
        return RETRY

    def event(self, position: EventId, message: bytes) -> bytes:
        """Encode a message as an event."""
        return encode_sse(Event(b"message", message, str(position).encode()))

    def ending(self, position: EventId) -> bytes:
        """Encode the end of the answer."""
        return encode_sse(Event(b"end", b"{}", str(replace(position, passed=0, ended=True)).encode()))


class UIMessageResponse(DurableResponse):
    """The same for `useChat` of the Vercel AI SDK: its UI message stream, such as of `recipes.ui_messages.chunks`.

    When resumed, it repeats the answer from the beginning, as `useChat` expects; if no answer is running, it is 204.
    """

    own_headers: ClassVar[Mapping[str, str]] = {**DurableResponse.own_headers, **ui_messages.HEADERS}

    @staticmethod
    def encode_error(error: BaseException) -> bytes:
        return ui_messages.encode_failure_discreetly(error)

    async def _over(self, first: Page, position: EventId) -> bool:
        del position
        return first.closed or (await self._stream.head()).closed

    def refusal(self, refusal: ProtocolError) -> Response:
        return Response(status_code=NO_CONTENT) if isinstance(refusal, NotFound) else super().refusal(refusal)

    def beginning(self) -> bytes:
        return b""

    def event(self, position: EventId, message: bytes) -> bytes:
        del position
        return b"data: %b\n\n" % message.replace(b"\n", b" ").replace(b"\r", b" ")

    def ending(self, position: EventId) -> bytes:
        del position
        return ui_messages.DONE


async def _unless_left(sending: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Send until the end, or until the client disconnects."""
    tasks = {asyncio.ensure_future(sending), asyncio.ensure_future(_left(receive))}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
