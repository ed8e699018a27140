"""Base64url without padding, as keys and signatures are written (RFC 7515, §2).

The rule: bytes have one spelling. A last letter whose spare bits are not zero, which would decode all the same, is
refused.
"""

import base64


def format_base64url(data: bytes) -> str:
    """Write bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parse_base64url(text: str) -> bytes:
    """Read what `format_base64url` writes; raise ValueError for anything else."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except ValueError:
        data = None
    if data is None or format_base64url(data) != text:
        raise ValueError(f"must be unpadded base64url, got {text!a}")
    return data
