"""Names of the records that the server keeps for itself as streams. The limits of tenants do not apply to them.

No URL leads to the records. The registry is no record: clients read it as a stream.
"""

from everbrook.protocol.path import BUCKET_RECORDS, REGISTRY

SUBSCRIPTION_RECORDS = b"subscription"
QUOTA_RECORDS = b"quota/"
SECRET_RECORDS = b"secrets/"

_RECORDS = (SUBSCRIPTION_RECORDS + b"/", QUOTA_RECORDS, SECRET_RECORDS, BUCKET_RECORDS)


def is_own(name: bytes) -> bool:
    """Return whether the server itself writes what has this name: a record, or the registry."""
    return name == REGISTRY or name.startswith(_RECORDS)
