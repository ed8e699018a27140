"""Lists of streams and buckets, page by page."""

from collections.abc import AsyncIterator

from everbrook.client._async.transport import AsyncTransport
from everbrook.client.address import Root
from everbrook.client.documents import decode_document
from everbrook.client.errors import Unsupported
from everbrook.client.models import BucketInfo, BucketPage, Changes, StreamInfo, StreamPage
from everbrook.protocol.errors import BucketNotFound, NotFound


async def list_streams(transport: AsyncTransport, root: Root, prefix: str, after: str) -> AsyncIterator[StreamInfo]:
    """List streams in the order of their names."""
    while True:
        page = await _streams(transport, root, {"prefix": prefix, "after": after})
        for stream in page.streams:
            yield stream
        if not page.has_more or page.next_cursor is None:
            return
        after = page.next_cursor


async def changes(transport: AsyncTransport, root: Root, token: str | None, prefix: str) -> Changes:
    """List what moved since a token, or everything with a token to go on with."""
    if token is None:
        return await _everything(transport, root, prefix)
    moved: list[StreamInfo] = []
    while True:
        page = await _streams(transport, root, {"prefix": prefix, "changed_since": token})
        moved += page.streams
        token = page.token
        if not page.has_more:
            return Changes(moved, token)


async def _everything(transport: AsyncTransport, root: Root, prefix: str) -> Changes:
    """List all streams. The first page's token counts: what moves after it is told again rather than not at all."""
    first = await _streams(transport, root, {"prefix": prefix})
    streams = list(first.streams)
    if first.has_more and first.next_cursor is not None:
        streams += [stream async for stream in list_streams(transport, root, prefix, first.next_cursor)]
    return Changes(streams, first.token)


async def list_buckets(transport: AsyncTransport, url: str, prefix: str) -> AsyncIterator[BucketInfo]:
    """List buckets in the order of their names."""
    after = ""
    while True:
        answer = await transport.request("GET", url, query=_query(transport, {"prefix": prefix, "after": after}))
        page = decode_document(answer.content, BucketPage, url)
        for bucket in page.buckets:
            yield bucket
        if not page.has_more or page.next_cursor is None:
            return
        after = page.next_cursor


async def _streams(transport: AsyncTransport, root: Root, query: dict[str, str]) -> StreamPage:
    url = root.control("streams")
    try:
        answer = await transport.request("GET", url, query=_query(transport, query))
    except BucketNotFound:
        raise
    except NotFound as error:
        raise Unsupported(f"the server has no list of streams at {url}") from error
    return decode_document(answer.content, StreamPage, url)


def _query(transport: AsyncTransport, given: dict[str, str]) -> dict[str, str]:
    limit = {"limit": str(transport.tuning.list_page_entries)}
    return {name: value for name, value in given.items() if value} | limit
