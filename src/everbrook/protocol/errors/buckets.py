"""Refusals about buckets and the lists of what is in them."""

from everbrook.protocol.errors.families import Conflict, NotFound
from everbrook.protocol.errors.refusal import ProtocolError


class BucketNotFound(NotFound):
    """No bucket has this name (002 §1.6)."""

    code = "bucket_not_found"


class BucketExists(Conflict):
    """There is a bucket of this name (002 §1.2)."""

    code = "bucket_exists"


class BucketNotEmpty(Conflict):
    """Streams are in the bucket (002 §1.5)."""

    code = "bucket_not_empty"


class TokenGone(ProtocolError):
    """What moved since the token of a listing was given is not known any more: list everything again."""

    status = 410
    code = "token_gone"
