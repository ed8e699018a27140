"""Paths: how a URL names a stream, on the base surface and in a bucket (002 §1.1).

The name of a stream is its percent-decoded URL path. On the base surface a name is refused if a proxy, a file system or
a person could take it for another one: dot segments, empty segments, backslashes, control characters, bytes that are
not UTF-8. In a bucket the rules are those of the extension.
"""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from everbrook.protocol.errors import InvalidPath, NotFound, quoted
from everbrook.protocol.offset import OFFSET_DIGITS

STREAM_ROOT = b"/v1/stream/"
BUCKETS = b"/ds"
BUCKET_ROOT = b"/ds/"
REGISTRY = STREAM_ROOT + b"__registry__"
"""The name of the registry, which only the server writes."""
CONTROL_SEGMENT = b"__ds"
LISTING_SEGMENT = b"streams"
MAX_PATH_BYTES = 400
MAX_KEY_BYTES = 122

# A bucket is stored as a stream below this prefix, which no URL has.
BUCKET_RECORDS = b"bucket/"

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f\\]")
_SNAPSHOT = re.compile(rb"(%b.+)/(snapshot/[0-9]{%d})" % (STREAM_ROOT, OFFSET_DIGITS))
_BUCKET_ID = re.compile(rb"[a-z0-9_-]{4,64}")


# Clients choose the keys, but a refusal is not cached, so the names of the results are short.
@lru_cache(maxsize=16384)
def parse_stream_path(path: bytes) -> bytes:
    """Parse the raw URL path of a stream into the stream's name."""
    if path.startswith(BUCKET_ROOT):
        return _parse_bucketed(path)
    name = decode_path(path)
    tail = name[len(STREAM_ROOT) :]
    if len(tail) > MAX_PATH_BYTES:
        raise InvalidPath(f"a stream path holds at most {MAX_PATH_BYTES} bytes, got {len(tail)}")
    if found := _FORBIDDEN.search(tail):
        raise InvalidPath(
            f"a stream path must not contain a control character or a backslash, got {quoted(found.group())}"
        )
    _check_segments(tail.split(b"/"))
    return name


def require_new_name(name: bytes) -> None:
    """Refuse a name that looks like the URL of a snapshot: on the base surface these are below `__ds` (gap G-62)."""
    if found := _SNAPSHOT.fullmatch(name):
        stream, snapshot = found[1].decode(), found[2].decode()
        raise InvalidPath(
            f"no stream is created at a path that ends in {snapshot}: a snapshot is published at "
            f"{stream}/{CONTROL_SEGMENT.decode()}/{snapshot}"
        )


def decode_path(path: bytes) -> bytes:
    """Decode the percent escapes in a part of a URL path. The result must be UTF-8."""
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
            raise InvalidPath("a stream path must not have an empty segment")
        if segment in {b".", b".."}:
            raise InvalidPath(f"a stream path has no {segment.decode()!r} segment")
        if segment == CONTROL_SEGMENT:
            raise NotFound("paths below __ds are reserved for control resources; there is none here")


def _parse_bucketed(path: bytes) -> bytes:
    """Parse `/ds/{bucket}/{stream}` (002 §1.1)."""
    bucket, _, stream = path[len(BUCKET_ROOT) :].partition(b"/")
    bucket_id, stream_id = parse_bucket_id(bucket), decode_path(stream)
    if not stream_id:
        raise InvalidPath("a stream id must not be empty")
    if stream_id == CONTROL_SEGMENT:
        raise NotFound("paths below __ds are reserved for control resources; there is none here")
    if stream_id == LISTING_SEGMENT:
        raise InvalidPath("the stream id 'streams' is reserved for the list of the bucket's streams")
    if found := next((each for each in (b"/", b"\0", b"..") if each in stream_id), None):
        raise InvalidPath(f"a stream id in a bucket must not contain {quoted(found)}, got {quoted(stream_id)}")
    key = b"%b/%b" % (bucket_id, stream_id)
    if len(key) > MAX_KEY_BYTES:
        raise InvalidPath(f"bucket and stream id together hold at most {MAX_KEY_BYTES} bytes, got {len(key)}")
    return BUCKET_ROOT + key


def parse_bucket_id(segment: bytes) -> bytes:
    """Parse the segment of a URL that names a bucket (002 §1.1)."""
    bucket_id = decode_path(segment)
    if not _BUCKET_ID.fullmatch(bucket_id):
        raise InvalidPath(f"a bucket id must be 4 to 64 characters of a-z, 0-9, _ and -, got {quoted(bucket_id)}")
    return bucket_id


def bucket_of(name: bytes) -> bytes | None:
    """Return the id of the bucket that a name or any other path is in; None on the base surface."""
    return name[len(BUCKET_ROOT) :].partition(b"/")[0] if name.startswith(BUCKET_ROOT) else None


def bucket_record(bucket_id: bytes) -> bytes:
    """Return the name of the stream that stores the bucket itself."""
    return BUCKET_RECORDS + bucket_id


def bucket_prefix(bucket_id: bytes) -> bytes:
    """Return the common prefix of the names of all streams in a bucket."""
    return b"%b%b/" % (BUCKET_ROOT, bucket_id)


def parse_source_path(value: bytes) -> bytes:
    """Parse `Stream-Forked-From`: the URL path of the source on this server (§4.2)."""
    if not value.startswith((STREAM_ROOT, BUCKET_ROOT)):
        raise InvalidPath(
            f"Stream-Forked-From must be the URL path of a stream, {STREAM_ROOT.decode()}…, got {quoted(value)}"
        )
    return parse_stream_path(value)
