"""Snapshots and bootstraps of a stream (002 §2, §3)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar
from urllib.parse import urljoin

from msgspec import Struct

from everbrook.client._async.transport import AsyncTransport
from everbrook.client.address import origin_of, part_of
from everbrook.client.content import Codec, Kind, kind_of
from everbrook.client.errors import InvalidAnswer, Redirected
from everbrook.client.models import Snapshot
from everbrook.client.multipart import BodyPart, PartDecoder
from everbrook.client.wire.request import ConnectionBroken
from everbrook.protocol.errors import PreconditionFailed, ProtocolError, SnapshotNotFound

T = TypeVar("T")

_NO_SNAPSHOT = "-1"
# Each replacement of a snapshot between the redirect and the fetch costs another round: a server that redirects to
# missing snapshots for ever must not hold the caller.
MAX_REPLACEMENTS = 10


class Bootstrap(Struct, Generic[T], frozen=True):
    """A stream as of one moment: its snapshot, if it has one, and every message after it, up to `offset`."""

    snapshot: Snapshot | None
    messages: list[T]
    offset: str


class AsyncSnapshots:
    """The snapshots of one stream, below `url`."""

    def __init__(self, transport: AsyncTransport, url: str) -> None:
        self._transport = transport
        self._url = url

    async def publish(self, data: bytes, offset: str, headers: Mapping[str, str]) -> None:
        url = part_of(self._url, "snapshot", offset)
        attempts = self._transport.attempts(f"PUT {url}")
        try:
            await self._transport.request("PUT", url, headers=headers, content=data, attempts=attempts)
        except PreconditionFailed:
            if not (attempts.uncertain and await self._is_latest(offset, data)):
                raise

    async def _is_latest(self, offset: str, data: bytes) -> bool:
        """Return whether a snapshot was published although the response was lost."""
        found = await self.latest()
        return found is not None and (found.offset, found.data) == (offset, data)

    async def latest(self) -> Snapshot | None:
        """Fetch the latest snapshot, if there is one. If it is replaced meanwhile, fetch the new one."""
        for _ in range(MAX_REPLACEMENTS):
            if (location := await self._location()) is None:
                return None
            with suppress(SnapshotNotFound):
                return await self._fetch(location)
        raise InvalidAnswer(
            f"{self._url}/snapshot redirected {MAX_REPLACEMENTS} times to a snapshot that does not exist"
        )

    async def _location(self) -> str | None:
        """Find the URL of the latest snapshot, on the same server only: another must not see the token."""
        here = f"{self._url}/snapshot"
        try:
            await self._transport.request("GET", here)
        except SnapshotNotFound:
            return None
        except Redirected as redirect:
            location = urljoin(here, redirect.location)
            if origin_of(location) == origin_of(here):
                return location
            raise
        raise InvalidAnswer(f"{here} must redirect to a snapshot, with its offset as the last part of Location")

    async def _fetch(self, location: str) -> Snapshot:
        response = await self._transport.request("GET", location)
        return Snapshot(
            offset=location.rsplit("/", 1)[1],
            data=response.content,
            content_type=response.headers.get("Content-Type", ""),
            etag=response.headers.get("ETag"),
        )

    async def delete(self, offset: str) -> None:
        url = part_of(self._url, "snapshot", offset)
        attempts = self._transport.attempts(f"DELETE {url}")
        try:
            await self._transport.request("DELETE", url, attempts=attempts)
        except SnapshotNotFound:
            if not attempts.uncertain:
                raise

    async def cut(self, offset: str) -> None:
        await self._transport.request("PUT", part_of(self._url, "retention", offset))

    async def bootstrap(self, codec: Codec[T]) -> Bootstrap[T]:
        """Fetch snapshot and messages as of one tail. A bootstrap that was cut off is requested again."""
        attempts = self._transport.attempts(f"GET {self._url}/bootstrap")
        while True:
            try:
                return await self._bootstrap(codec)
            except (ConnectionBroken, ProtocolError) as failure:
                await self._transport.pause(attempts.delay_after(failure), failure)

    async def _bootstrap(self, codec: Codec[T]) -> Bootstrap[T]:
        async with self._transport.open("GET", f"{self._url}/bootstrap") as response:
            decoder = PartDecoder(response.headers.get("Content-Type", ""))
            parts = [part async for received in response.aiter_bytes() for part in decoder.feed(received)]
            if not decoder.ended:
                raise ConnectionBroken("the bootstrap ended before its closing boundary")
            return _assembled(parts, response.headers, codec)


def _assembled(parts: list[BodyPart], headers: Mapping[str, str], codec: Codec[T]) -> Bootstrap[T]:
    if not parts or "Stream-Next-Offset" not in headers:
        raise InvalidAnswer("a bootstrap must begin with a snapshot part and have the header Stream-Next-Offset")
    first, messages = parts[0], parts[1:]
    at = headers.get("Stream-Snapshot-Offset", _NO_SNAPSHOT)
    snapshot = None if at == _NO_SNAPSHOT else Snapshot(at, first.data, first.content_type)
    return Bootstrap(snapshot, _values(messages, codec), headers["Stream-Next-Offset"])


def _values(parts: list[BodyPart], codec: Codec[T]) -> list[T]:
    if not parts:
        return []
    kind = kind_of(parts[0].content_type)
    if kind is Kind.JSON:
        return codec.decode_all(b"[%b]" % b",".join(part.data for part in parts))
    values: list[Any] = [part.data.decode("utf-8", "replace") if kind is Kind.TEXT else part.data for part in parts]
    return values
