"""The requests of a pull-wake worker: claims, acks, and reads of its streams (§7.2).

The rule: a request has one of three outcomes. It succeeds; it raises `Unreachable`, and may succeed later; or it raises
a refusal of the protocol, which a retry would get again.
"""

import asyncio
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from everbrook.client._async.transport import AsyncTransport
from everbrook.client._async.wire import AsyncResponse
from everbrook.client.address import Root
from everbrook.client.errors import Unreachable
from everbrook.client.models import decode_document, head_of
from everbrook.client.page import page_of
from everbrook.client.refusals import header_of
from everbrook.client.retry import may_succeed_later
from everbrook.client.wire.request import ConnectionBroken, RequestOptions
from everbrook.protocol.errors import (
    AlreadyClaimed,
    Fenced,
    InvalidAck,
    NoPendingWork,
    NotFound,
    OffsetGone,
    ProtocolError,
    StreamClosed,
    StreamGone,
    Unauthorized,
)
from everbrook.protocol.json_text import decode_mended

POLL_TIMEOUT_SECS = 90.0
# A lease is renewed after each quarter of its time, so that it survives two failed renewals.
HEARTBEATS = 4

_values = msgspec.json.Decoder(list[Any])


class LeaseLost(Exception):
    """The lease expired or was taken over. Another worker gets the messages that were not acked (§7.3)."""


class PendingStream(Struct, frozen=True):
    """A stream with new messages, from `acked_offset` to at least `tail_offset`."""

    path: str
    acked_offset: str
    tail_offset: str


class Lease(Struct, frozen=True):
    """The exclusive right to work on one wake, for a time. Every ack renews it."""

    wake_id: str
    generation: int
    token: str
    streams: list[PendingStream]
    lease_ttl_ms: int


class Batch(Struct, frozen=True):
    """A part of a stream, from `offset` to `next_offset`, which is acked when the batch is handled.

    A gap between two batches means that the stream was cut meanwhile.
    """

    stream: str
    content_type: str
    data: bytes
    offset: str
    next_offset: str

    @property
    def messages(self) -> list[Any]:
        """The messages of a JSON stream. Other streams have only `data`."""
        return decode_mended(_values.decode, self.data)


class WakeEvent(Struct, frozen=True):
    """The part of a wake message that a worker needs."""

    subscription_id: str = ""


class Leases:
    """The requests of one worker, below a stream root."""

    def __init__(self, transport: AsyncTransport, root: Root, subscription_id: str, wake_stream: str) -> None:
        self._transport = transport
        self._root = root
        self._subscription = root.subscription(subscription_id)
        self._wakes = root.stream(wake_stream)

    async def claim(self, worker: str) -> Lease | None:
        """Claim the lease. Returns None if there is no work, or another worker has the lease."""
        try:
            response = await self._post("claim", {"worker": worker})
        except (AlreadyClaimed, NoPendingWork):
            return None
        return decode_document(response.content, Lease, f"{self._subscription}/claim")

    async def ack(self, lease: Lease, acks: dict[str, str], *, done: bool = False) -> None:
        """Ack streams up to offsets, and renew the lease, or release it with `done`."""
        listed = [{"stream": stream, "offset": offset} for stream, offset in acks.items()]
        try:
            await self._report(lease, "ack", {"acks": listed, "done": done})
        except InvalidAck:
            if not acks:
                raise
            # A stream that was deleted while it was processed can't be acked: the lease is renewed without it.
            await self.ack(lease, {}, done=done)

    async def release(self, lease: Lease) -> None:
        """Release the lease. Messages that were not acked cause another wake."""
        await self._report(lease, "release", {})

    async def _report(self, lease: Lease, action: str, body: dict[str, object]) -> None:
        body = {"wake_id": lease.wake_id, "generation": lease.generation, **body}
        try:
            await self._post(action, body, Authorization=f"Bearer {lease.token}")
        except (Unauthorized, Fenced) as refusal:
            raise LeaseLost(refusal.detail) from refusal

    async def read(self, path: str, offset: str) -> Batch | None:
        """Read one page after an offset, or give None if the stream is gone."""
        try:
            bound = str(self._transport.tuning.page_bytes)
            response = await self._ask("GET", self._root.stream(path), query={"offset": offset, "max_bytes": bound})
        except OffsetGone as gone:
            earliest = header_of(gone, "Stream-Earliest-Offset") or ""
            return await self.read(path, earliest) if earliest > offset else None
        except (NotFound, StreamGone):
            return None
        headers = response.headers
        next_offset = page_of(offset, response.status_code, headers, b"").next_offset
        return Batch(path, headers.get("Content-Type", ""), response.content, offset, next_offset)

    async def wake_tail(self) -> str:
        """Return the tail of the wake stream, which is the offset of the next wake."""
        return head_of((await self._ask("HEAD", self._wakes)).headers).offset

    async def poll(self, offset: str, cursor: str) -> tuple[list[WakeEvent], str, str]:
        """Wait for wakes after an offset. Returns them, the next offset, and the next cursor (§10.1)."""
        query = {"offset": offset, "live": "long-poll"} | ({"cursor": cursor} if cursor else {})
        response = await self._ask("GET", self._wakes, query=query, timeout_secs=POLL_TIMEOUT_SECS)
        page = page_of(offset, response.status_code, response.headers, response.content)
        if page.closed:
            raise StreamClosed(f"the wake stream {self._wakes} is closed: no worker can be woken through it")
        return _events(page.data), page.next_offset, page.cursor or ""

    async def _post(self, action: str, body: dict[str, object], **headers: str) -> AsyncResponse:
        headers = {"Content-Type": "application/json", **headers}
        content = msgspec.json.encode(body)
        return await self._ask("POST", f"{self._subscription}/{action}", headers=headers, content=content)

    async def _ask(self, method: str, url: str, **options: Unpack[RequestOptions]) -> AsyncResponse:
        try:
            return await self._transport.ask(method, url, **options)
        except (ConnectionBroken, ProtocolError) as failure:
            if not may_succeed_later(failure):
                raise
            raise Unreachable(f"{method} {url}: {str(failure) or type(failure).__name__}") from failure


async def keep_up(leases: Leases, lease: Lease) -> None:
    """Renew the lease until it is lost, which raises LeaseLost."""
    loop = asyncio.get_running_loop()
    lease_secs = lease.lease_ttl_ms / 1000
    pause_secs = lease_secs / HEARTBEATS
    good_until = loop.time() + lease_secs
    while True:
        await asyncio.sleep(pause_secs)
        sent_at = loop.time()
        try:
            async with asyncio.timeout_at(good_until):
                await leases.ack(lease, {})
            # The server counts from when it handled the ack, which is not before it was sent.
            good_until = sent_at + lease_secs
        except (Unreachable, TimeoutError) as error:
            if loop.time() + pause_secs >= good_until:
                raise LeaseLost(f"the lease could not be renewed in time: {error}") from error


def _events(body: bytes) -> list[WakeEvent]:
    """Decode wakes. If a message is not a wake, none is returned, and the worker tries to claim work."""
    try:
        return msgspec.json.decode(body, type=list[WakeEvent])
    except (ValueError, RecursionError):
        return []
