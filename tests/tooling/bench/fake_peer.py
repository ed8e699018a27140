"""A server that answers each method as a stream would, and nothing else: `python fake_peer.py PORT [FOLDER]`.

It does not start if its folder is missing or has something in it.
"""

import asyncio
import sys
from pathlib import Path
from typing import cast

_ANSWERS = {
    b"PUT": b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
    b"POST": b"HTTP/1.1 204 No Content\r\nStream-Next-Offset: 1\r\n\r\n",
    b"DELETE": b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HEAD": b"HTTP/1.1 200 OK\r\n\r\n",
}


class _Stream(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        method = data.partition(b" ")[0]
        if method in _ANSWERS:  # the body of a request may come after its head
            self._transport.write(_ANSWERS[method])


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Stream, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    if any(entry for folder in sys.argv[2:] for entry in Path(folder).iterdir()):
        sys.exit("the folder is not empty")
    asyncio.run(_serve(int(sys.argv[1])))
