"""Refusals of what can't be read: a request that is outside the grammar of the protocol."""

from everbrook.protocol.errors.families import BadRequest


class InvalidPath(BadRequest):
    """The URL path cannot name a stream."""

    code = "invalid_path"


class InvalidHeader(BadRequest):
    """A protocol header has a value outside its grammar."""

    code = "invalid_header"


class InvalidQuery(BadRequest):
    """A query parameter has a value outside its grammar."""

    code = "invalid_query"


class InvalidOffset(BadRequest):
    """The offset is malformed, or lies inside a message."""

    code = "invalid_offset"


class InvalidJson(BadRequest):
    """The body of an append to a JSON stream is not JSON."""

    code = "invalid_json"


class EmptyAppend(BadRequest):
    """An append carries nothing and does not close the stream (§5.2)."""

    code = "empty_append"


class MissingContentType(BadRequest):
    """A body came without a Content-Type (§5.2)."""

    code = "missing_content_type"


class DigestMismatch(BadRequest):
    """A body is not the one whose digest was announced."""

    code = "digest_mismatch"
