"""Paths: how a URL names a stream.

A stream's name is its percent-decoded URL path. A name is refused where a proxy, a file system or a person could
read it as another one: dot segments, empty segments, backslashes, control characters, bytes that are not UTF-8.
"""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from everbrook.protocol.errors import InvalidPath, NotFound, quoted

STREAM_ROOT = b"/v1/stream/"
CONTROL_SEGMENT = b"__ds"
MAX_PATH_BYTES = 400

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f\\]")


@lru_cache(maxsize=16384)
def parse_stream_path(path: bytes) -> bytes:
    """Turn the raw path of a URL below the stream root into the stream's name."""
    name = _decode(path)
    tail = name[len(STREAM_ROOT) :]
    if len(tail) > MAX_PATH_BYTES:
        raise InvalidPath(f"a stream path holds at most {MAX_PATH_BYTES} bytes, got {len(tail)}")
    if found := _FORBIDDEN.search(tail):
        raise InvalidPath(f"a stream path holds no control character or backslash, got {quoted(found.group())}")
    _check_segments(tail.split(b"/"))
    return name


def _decode(path: bytes) -> bytes:
    if b"%" not in path:
        name = path
    elif _BAD_ESCAPE.search(path):
        raise InvalidPath(f"a percent sign must be followed by two hexadecimal digits, got {quoted(path)}")
    else:
        name = unquote_to_bytes(path)
    try:
        name.decode()
    except UnicodeDecodeError:
        raise InvalidPath(f"a stream path must be UTF-8, got {quoted(path)}") from None
    return name


def _check_segments(segments: list[bytes]) -> None:
    for segment in segments:
        if not segment:
            raise InvalidPath("a stream path has no empty segment")
        if segment in {b".", b".."}:
            raise InvalidPath(f"a stream path has no {segment.decode()!r} segment")
        if segment == CONTROL_SEGMENT:
            raise NotFound("paths below __ds are reserved for control resources; there is none here")


def parse_source_path(value: bytes) -> bytes:
    """Read `Stream-Forked-From`: the URL path of the source on this server (§4.2)."""
    if not value.startswith(STREAM_ROOT):
        raise InvalidPath(
            f"Stream-Forked-From must be the URL path of a stream, {STREAM_ROOT.decode()}…, got {quoted(value)}"
        )
    return parse_stream_path(value)
