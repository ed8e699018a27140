"""Names of what the server keeps for itself, beside the streams of its tenants: their limits do not hold for it.

No URL leads to the records; clients read the registry as a stream.
"""

from everbrook.protocol.path import BUCKET_RECORDS, REGISTRY

SUBSCRIPTION_RECORDS = b"subscription"
QUOTA_RECORDS = b"quota/"
SECRET_RECORDS = b"secrets/"

_RECORDS = (SUBSCRIPTION_RECORDS + b"/", QUOTA_RECORDS, SECRET_RECORDS, BUCKET_RECORDS)


def is_own(name: bytes) -> bool:
    """Tell whether the server itself writes what has this name: a record, or the registry."""
    return name == REGISTRY or name.startswith(_RECORDS)
