"""Compression of catch-up reads, for clients that accept it.

A large body is compressed in a thread, so that other requests need not wait. A body that compression does not make
smaller is sent uncompressed.
"""

import gzip
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

from everbrook.engine.faults import Faults
from everbrook.protocol.memo import remember
from everbrook.protocol.read import Page
from everbrook.server.deferred import Threaded
from everbrook.server.exchange import Reply, Response

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

INLINE_MAX_BYTES = 16 * 1024
GZIP_LEVEL = 1
ZSTD_LEVEL = 3

# Added to the window size, it makes zlib write the format of gzip.
_GZIP_FORMAT = 16

# Media types whose bytes are compressed already.
_DENSE_PREFIXES = (b"image/", b"audio/", b"video/", b"font/")
_DENSE = {b"application/gzip", b"application/zip", b"application/zstd", b"application/pdf"}


class Coder(Protocol):
    """Compresses a body part by part."""

    def part(self, data: bytes) -> bytes:
        """Compress the next part, and flush, so that the client can decompress it at once."""

    def end(self) -> bytes:
        """Return the end of the body."""


class _GzipCoder:
    def __init__(self) -> None:
        self._compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | _GZIP_FORMAT)

    def part(self, data: bytes) -> bytes:
        return self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._compressor.flush()


class _ZstdCoder:
    def __init__(self) -> None:
        self._compressor = zstd.ZstdCompressor(ZSTD_LEVEL)

    def part(self, data: bytes) -> bytes:
        return self._compressor.compress(data, mode=self._compressor.FLUSH_BLOCK)

    def end(self) -> bytes:
        return self._compressor.flush()


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, GZIP_LEVEL, mtime=0)


def _zstd(body: bytes) -> bytes:
    return zstd.compress(body, ZSTD_LEVEL)


# In the order in which the server prefers them.
_CODINGS: dict[bytes, Callable[[bytes], bytes]] = {b"zstd": _zstd, b"gzip": _gzip}
CODERS: dict[bytes, Callable[[], Coder]] = {b"zstd": _ZstdCoder, b"gzip": _GzipCoder}


@remember(maxsize=256)
def choose_coding(accept_encoding: bytes) -> bytes | None:
    """Choose the supported coding that the client prefers (RFC 9110 §12.5.3)."""
    weights: dict[bytes, float] = {}
    for item in accept_encoding.lower().split(b","):
        coding, _, parameters = item.partition(b";")
        weights[coding.strip()] = _weight(parameters)
    offered = {coding: weights.get(coding, weights.get(b"*", 0.0)) for coding in _CODINGS}
    best = max(offered, key=lambda coding: offered[coding])
    return best if offered[best] > 0 and offered[best] >= weights.get(b"identity", 0.0) else None


def _weight(parameters: bytes) -> float:
    name, _, value = parameters.partition(b"=")
    if name.strip() != b"q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _dense(media_type: bytes) -> bool:
    return media_type in _DENSE or (media_type.startswith(_DENSE_PREFIXES) and not media_type.endswith(b"+xml"))


class Compressor:
    """Compresses responses that are large enough."""

    def __init__(self, min_bytes: int, faults: Faults) -> None:
        self._min_bytes = min_bytes
        self._faults = faults

    def worthwhile(self, page: Page) -> bool:
        """Tell whether a page is compressed for clients that accept it."""
        return page.end - page.start >= self._min_bytes and not _dense(page.head.identity.media_type)

    def reply(self, response: Response, accept_encoding: bytes) -> Reply:
        """Return the response as it is, compressed, or deferred until a thread has compressed it."""
        coding = choose_coding(accept_encoding)
        if coding is None:
            return response
        if len(response.body) <= INLINE_MAX_BYTES:
            return encode(response, coding)
        return Threaded(partial(encode, response, coding), b"", self._faults)


def encode(response: Response, coding: bytes) -> Response:
    """Compress a response. Its entity tag becomes weak: the content is equal, the bytes are not (RFC 9110 §8.8.1)."""
    body = _CODINGS[coding](response.body)
    if len(body) >= len(response.body):
        return response
    return Response(response.status, encoded_lines(response.headers, coding), body, response.rests_on)


def encoded_lines(headers: bytes, coding: bytes) -> bytes:
    """Return the header lines of a response whose body is compressed."""
    return headers.replace(b'ETag: "', b'ETag: W/"') + b"Content-Encoding: %b\r\n" % coding
