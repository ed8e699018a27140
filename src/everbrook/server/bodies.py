"""How large the body of a request may be: for what goes into streams the settings say it, for what is said about a
subscription the streams that it can name (§6, §7).

Whoever has the URL of a subscription may send it reports, and proves by a token of its own that they count. So reports
are small, and more than a little of one is taken only from those who have such a token.
"""

from everbrook.protocol.errors import UnsupportedCoding, quoted
from everbrook.protocol.path import CONTROL_SEGMENT
from everbrook.protocol.subscriptions.config import MAX_STREAMS
from everbrook.protocol.subscriptions.decide import MAX_WAKE_STREAMS

SUBSCRIPTIONS = b"/%b/subscriptions/" % CONTROL_SEGMENT
"""What the path of every request has that is about one subscription."""

STREAM_BYTES = 512
"""How much a body may say of one stream: the longest path and an offset fit, with what JSON puts around them."""

MAX_REPORT_BYTES = MAX_WAKE_STREAMS * STREAM_BYTES
"""A callback or an ack may name every stream of its wake. Who spells them at greater length acks in parts (§7.2)."""

MAX_CONFIG_BYTES = MAX_STREAMS * STREAM_BYTES
"""A subscription may be created with so many streams at once, or linked to them."""

_SHORT = {b"callback", b"claim", b"ack", b"release"}


def require_unpacked(headers: dict[bytes, bytes]) -> None:
    """Refuse a body with a content coding: it would be given to readers who are not told of that."""
    coding = headers.get(b"content-encoding")
    if coding is not None and coding.lower() != b"identity":
        raise UnsupportedCoding(f"a body is kept as it is sent and must not be packed, got {quoted(coding)}")


def max_body_bytes(path: bytes, max_append_bytes: int) -> int:
    """Tell how large the body of a request may be that is taken as a whole."""
    _, below, rest = path.partition(SUBSCRIPTIONS)
    if not below:
        return max_append_bytes
    action = rest.partition(b"/")[2]
    return min(MAX_REPORT_BYTES if action in _SHORT else MAX_CONFIG_BYTES, max_append_bytes)
