"""Pages of messages with the offset and the time of each, of servers that know them."""

from collections.abc import AsyncIterator

from everbrook.client._async.transport import AsyncTransport
from everbrook.client.errors import Unsupported
from everbrook.protocol.frames import CONTENT_TYPE, Frames, decode_frames


async def read_frames(transport: AsyncTransport, url: str, offset: str, until: str | None) -> AsyncIterator[Frames]:
    """Read what is there, page by page."""
    query = {"format": "frames", "offset": offset} | ({} if until is None else {"until": until})
    while True:
        response = await transport.request("GET", url, query=query)
        if response.headers.get("Content-Type", "") != CONTENT_TYPE.decode():
            raise Unsupported("this server does not know format=frames")
        page = decode_frames(response.content)
        if len(page):
            yield page
        query["offset"] = response.headers["Stream-Next-Offset"]
        if "Stream-Up-To-Date" in response.headers or query["offset"] == until:
            return
