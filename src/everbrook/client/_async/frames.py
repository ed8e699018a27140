"""Pages of messages with the offset and the time of each, of servers that know them."""

from collections.abc import AsyncIterator, Mapping

from everbrook.client._async.transport import AsyncTransport
from everbrook.client.errors import StreamRewound, Unsupported
from everbrook.client.parameters import begin_query
from everbrook.client.refusals import header_of
from everbrook.protocol.errors import IncarnationMismatch
from everbrook.protocol.frames import CONTENT_TYPE, Frames, decode_frames


async def read_frames(
    transport: AsyncTransport, url: str, offset: str, start: Mapping[str, str], until: str | None, incarnation: str
) -> AsyncIterator[Frames]:
    """Read what is there of one incarnation of a stream, page by page: without one, that of the first page."""
    bounds = {"format": "frames"} | ({} if until is None else {"until": until})
    query = begin_query(offset, start)
    while True:
        headers = {"Stream-Incarnation": incarnation} if incarnation else {}
        try:
            response = await transport.request("GET", url, query=bounds | query, headers=headers)
        except IncarnationMismatch as other:
            raise _replaced(offset, incarnation, header_of(other, "Stream-Incarnation")) from other
        told = response.headers.get("Stream-Incarnation", incarnation)
        if incarnation and told != incarnation:
            raise _replaced(offset, incarnation, told)
        incarnation = told
        if response.headers.get("Content-Type", "") != CONTENT_TYPE.decode():
            raise Unsupported("this server does not know format=frames")
        page = decode_frames(response.content)
        if len(page):
            yield page
        offset = response.headers["Stream-Next-Offset"]
        if "Stream-Up-To-Date" in response.headers or offset == until:
            return
        query = {"offset": offset}


def _replaced(offset: str, incarnation: str, told: str | None) -> StreamRewound:
    return StreamRewound(
        f"the stream that is read from offset {offset} on had incarnation {incarnation}, and has incarnation {told} now"
    )
