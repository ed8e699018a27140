"""Content types of streams (§9).

Two content types are the same if their media types are. Parameters such as a charset are stored but not compared.
"""

import re
from functools import lru_cache

from everbrook.protocol.errors import InvalidHeader, quoted

DEFAULT_CONTENT_TYPE = b"application/octet-stream"
JSON = b"application/json"
MAX_CONTENT_TYPE_BYTES = 256

_MEDIA_TYPE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+")


# Clients choose the keys, but a refusal is not cached, so no key is longer than the bound.
@lru_cache(maxsize=1024)
def parse_media_type(content_type: bytes) -> bytes:
    """Return the lower-case `type/subtype` of a Content-Type header."""
    if len(content_type) > MAX_CONTENT_TYPE_BYTES:
        raise InvalidHeader(f"Content-Type holds at most {MAX_CONTENT_TYPE_BYTES} bytes, got {len(content_type)}")
    media_type = content_type.split(b";", 1)[0].strip(b" \t").lower()
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidHeader(f"Content-Type must be type/subtype, got {quoted(content_type)}")
    return media_type


@lru_cache(maxsize=1024)
def carried_as_text(media_type: bytes) -> bool:
    """Return whether SSE carries this media type as text, and not in base64 (§5.8)."""
    return media_type == JSON or media_type.startswith(b"text/")
