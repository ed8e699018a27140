"""A pull-wake subscription over HTTP, as one of its workers sees it: claims, acks, and the streams to be read (§7.2).

The rule: every answer is one of three. It is what was asked for; it is `Unavailable`, and the same request may succeed
later; or it is `Refused`, and no repetition will help.
"""

import asyncio
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

POLL_TIMEOUT_SECS = 90.0
TIMEOUT_SECS = 30.0
# A heartbeat comes after each such part of a lease: two may fail.
HEARTBEATS = 4

_OK, _NO_CONTENT, _UNAUTHORIZED, _NOT_FOUND, _CONFLICT, _GONE = 200, 204, 401, 404, 409, 410
_MAY_SUCCEED_LATER = {408, 425, 429}
_SERVER_FAULT = 500
_NOT_OURS = {"ALREADY_CLAIMED", "NO_PENDING_WORK"}


class Unavailable(Exception):
    """The server cannot be reached, or cannot answer now."""


class Refused(Exception):
    """The server refuses what a worker asks for: its subscription or wake stream is not there, or not as it thinks."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        """Give `code` to a program and `detail` to a person."""
        super().__init__(f"{detail} ({status} {code})")
        self.status = status
        self.code = code


class LeaseLost(Exception):
    """The lease ran out or was taken away. What was not acked is given to a worker again (§7.3)."""


class PendingStream(Struct, frozen=True):
    """A stream with news: what follows `acked_offset`, up to `tail_offset` and maybe more."""

    path: str
    acked_offset: str
    tail_offset: str


class Lease(Struct, frozen=True):
    """The right to work on one wake, until it runs out. Every ack begins it anew."""

    wake_id: str
    generation: int
    token: str
    streams: list[PendingStream]
    lease_ttl_ms: int


class Batch(Struct, frozen=True):
    """A piece of a stream. `offset` is where it begins, `next_offset` what is acked when it was handled.

    It begins later than the last one ended only where the stream was cut meanwhile.
    """

    stream: str
    content_type: str
    data: bytes
    offset: str
    next_offset: str

    @property
    def messages(self) -> list[Any]:
        """The messages of a JSON stream. Of other streams there are only bytes."""
        return msgspec.json.decode(self.data, type=list[Any])


class WakeEvent(Struct, frozen=True):
    """A message in the wake stream, as far as it matters."""

    subscription_id: str = ""


class _Error(Struct):
    """A refusal: of a subscription as §7 writes it, of a stream as a problem document, of a proxy as anything."""

    code: str = "unknown"
    message: str = ""
    detail: str = ""
    error: "_Error | None" = None


class Leases:
    """The requests of one worker. `base_url` is that of the stream root, such as `https://host/v1/stream`."""

    def __init__(self, client: httpx2.AsyncClient, base_url: str, subscription_id: str, wake_stream: str) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/")
        self._wake_stream = wake_stream
        self._subscription = f"{self._base_url}/__ds/subscriptions/{quote(subscription_id, safe='')}"

    async def claim(self, worker: str) -> Lease | None:
        """Ask for the lease, or give None if there is nothing to do or somebody else does it."""
        answer = await self._send("POST", f"{self._subscription}/claim", body={"worker": worker})
        if answer.status_code == _CONFLICT and _error(answer).code in _NOT_OURS:
            return None
        return msgspec.json.decode(_expect(answer, _OK).content, type=Lease)

    async def ack(self, lease: Lease, acks: dict[str, str], *, done: bool = False) -> None:
        """Say how far each stream was processed, and keep the lease, or give it back with `done`."""
        listed = [{"stream": stream, "offset": offset} for stream, offset in acks.items()]
        try:
            await self._report(lease, "ack", {"acks": listed, "done": done}, _OK)
        except Refused as refusal:
            if refusal.code != "INVALID_OFFSET" or not acks:
                raise
            # A stream was deleted while it was processed: there is nothing left to be acked of it.
            await self.ack(lease, {}, done=done)

    async def release(self, lease: Lease) -> None:
        """Give the lease back; what was not acked makes another wake."""
        await self._report(lease, "release", {}, _NO_CONTENT)

    async def _report(self, lease: Lease, action: str, body: dict[str, object], expected: int) -> None:
        body = {"wake_id": lease.wake_id, "generation": lease.generation, **body}
        headers = {"Authorization": f"Bearer {lease.token}"}
        answer = await self._send("POST", f"{self._subscription}/{action}", body=body, headers=headers)
        if answer.status_code == _UNAUTHORIZED or (answer.status_code == _CONFLICT and _error(answer).code == "FENCED"):
            raise LeaseLost(_error(answer).message)
        _expect(answer, expected)

    async def read(self, path: str, offset: str) -> Batch | None:
        """Read what follows an offset, as much as the server gives at once, or None if the stream is gone."""
        answer = await self._send("GET", self._url(path), {"offset": offset})
        earliest = answer.headers.get("Stream-Earliest-Offset", "")
        if answer.status_code == _GONE and earliest > offset:
            return await self.read(path, earliest)
        if answer.status_code in {_NOT_FOUND, _GONE}:
            return None
        headers = _expect(answer, _OK).headers
        return Batch(path, headers["Content-Type"], answer.content, offset, headers["Stream-Next-Offset"])

    async def wake_tail(self) -> str:
        """Give where the next wake will be written."""
        answer = await self._send("HEAD", self._url(self._wake_stream))
        return str(_expect(answer, _OK).headers["Stream-Next-Offset"])

    async def poll(self, offset: str, cursor: str) -> tuple[list[WakeEvent], str, str]:
        """Wait for wakes after an offset. Gives them, where to go on, and the cursor to send next (§10.1)."""
        query = {"offset": offset, "live": "long-poll"} | ({"cursor": cursor} if cursor else {})
        answer = await self._send("GET", self._url(self._wake_stream), query, timeout_secs=POLL_TIMEOUT_SECS)
        if answer.status_code != _NO_CONTENT:
            _expect(answer, _OK)
        if answer.headers.get("Stream-Closed"):
            raise Refused(answer.status_code, "stream_closed", f"the wake stream {self._wake_stream!r} is closed")
        return _events(answer), answer.headers["Stream-Next-Offset"], answer.headers.get("Stream-Cursor", "")

    def _url(self, path: str) -> str:
        return f"{self._base_url}/{quote(path, safe='/')}"

    async def _send(
        self,
        method: str,
        url: str,
        query: dict[str, str] | None = None,
        *,
        body: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
        timeout_secs: float = TIMEOUT_SECS,
    ) -> httpx2.Response:
        try:
            answer = await self._client.request(
                method, url, params=query, json=body, headers=headers, timeout=timeout_secs
            )
        except httpx2.TransportError as error:
            raise Unavailable(f"{method} {url} failed: {str(error) or type(error).__name__}") from error
        if answer.status_code >= _SERVER_FAULT or answer.status_code in _MAY_SUCCEED_LATER:
            raise Unavailable(f"{method} {url} was answered {answer.status_code}")
        return answer


async def keep_up(leases: Leases, lease: Lease) -> None:
    """Begin the lease anew again and again. Ends by raising LeaseLost."""
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
            good_until = sent_at + lease_secs
        except (Unavailable, TimeoutError) as error:
            if loop.time() + pause_secs >= good_until:
                raise LeaseLost("the server could not be told in time that the work goes on") from error


def _expect(answer: httpx2.Response, status: int) -> httpx2.Response:
    if answer.status_code != status:
        error = _error(answer)
        detail = error.message or error.detail or f"{answer.request.method} {answer.request.url} was refused"
        raise Refused(answer.status_code, error.code, detail)
    return answer


def _error(answer: httpx2.Response) -> _Error:
    try:
        found = msgspec.json.decode(answer.content, type=_Error)
    except (msgspec.MsgspecError, RecursionError):
        return _Error()
    return found.error or found


def _events(answer: httpx2.Response) -> list[WakeEvent]:
    """Read wakes. What somebody else wrote among them counts as none, which is worth a look as well."""
    try:
        return msgspec.json.decode(answer.content, type=list[WakeEvent])
    except (msgspec.MsgspecError, RecursionError):
        return []
