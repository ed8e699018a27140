"""Header lines that several resources share."""

from everbrook.protocol.lifetime import require_incarnation
from everbrook.protocol.read import NO_STORE, Page
from everbrook.protocol.retention import format_retention
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.server.exchange import Request, Response

NO_STORE_LINE = b"Cache-Control: %b\r\n" % NO_STORE
CLOSED = b"Stream-Closed: true\r\n"
UP_TO_DATE = b"Stream-Up-To-Date: true\r\n"


def no_content(common: bytes, rests_on: int = 0) -> Response:
    """Return a 204 response: the request has succeeded, and there is nothing to report."""
    return Response(204, common + NO_STORE_LINE, b"", rests_on)


def json_response(status: int, common: bytes, body: bytes, rests_on: int = 0) -> Response:
    """Return a response with a JSON document that no cache may keep."""
    lines = b"%bContent-Type: application/json\r\nCache-Control: %b\r\n" % (common, NO_STORE)
    return Response(status, lines, body, rests_on)


def with_incarnation(request: Request, common: bytes, identity: Identity, epoch: int) -> bytes:
    """Add the incarnation of the stream. Refuse a request that expects another one."""
    expected = request.headers.get(b"stream-incarnation")
    if expected is not None:
        require_incarnation(expected, identity, epoch)
    return b"%bStream-Incarnation: %x\r\n" % (common, identity.incarnation ^ epoch)


def kept_lines(head: Head) -> bytes:
    """Write what a stream retains, and its retention policy (002 §2.4)."""
    kept, retention = head.kept, head.identity.retention
    return b"%b%b%b" % (
        b"Stream-Earliest-Offset: %016d\r\n" % kept.earliest if kept.earliest else b"",
        b"Stream-Snapshot-Offset: %016d\r\n" % kept.snapshot.offset if kept.snapshot else b"",
        b"Stream-Retention: %b\r\n" % format_retention(retention) if retention else b"",
    )


def producer_lines(producer: Producer) -> bytes:
    """Write the last epoch and sequence number of a producer (§5.2.1), and its position if it has one."""
    lines = b"Producer-Epoch: %d\r\nProducer-Seq: %d\r\n" % (producer.epoch, producer.seq)
    return lines if producer.position is None else b"%bProducer-Position: %b\r\n" % (lines, producer.position)


def page_lines(page: Page) -> bytes:
    """Write at which offset a reader continues after a page (§5.6)."""
    return b"Stream-Next-Offset: %016d\r\n%b%b" % (
        page.end,
        UP_TO_DATE if page.up_to_date else b"",
        CLOSED if page.final else b"",
    )
