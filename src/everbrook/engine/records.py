"""The names of records: streams in which the server stores its own data. The limits of tenants do not apply to them.

Records have no URL. The registry is no record, because clients read it as a stream.
"""

from everbrook.protocol.path import BUCKET_RECORDS, REGISTRY

SUBSCRIPTION_RECORDS = b"subscription"
QUOTA_RECORDS = b"quota/"
SECRET_RECORDS = b"secrets/"

_RECORDS = (SUBSCRIPTION_RECORDS + b"/", QUOTA_RECORDS, SECRET_RECORDS, BUCKET_RECORDS)


def is_own(name: bytes) -> bool:
    """Return whether only the server writes to the stream of this name: a record, or the registry."""
    return name == REGISTRY or name.startswith(_RECORDS)
