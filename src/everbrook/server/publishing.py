"""The publication of a snapshot: its bytes go to a blob as they come, and then one change refers to it (002 §2.2)."""

from collections.abc import Callable

from msgspec.structs import replace

from everbrook.engine.engine import Engine
from everbrook.engine.uploads import Upload
from everbrook.protocol.commands import PublishSnapshot
from everbrook.protocol.errors import DigestMismatch, ProtocolError, Unavailable
from everbrook.protocol.incarnation import format_incarnation
from everbrook.protocol.snapshots import format_digest, format_snapshot_etag
from everbrook.protocol.state import Head
from everbrook.server.exchange import Exchange, Response
from everbrook.server.problem import problem_response
from everbrook.server.render import NO_STORE_LINE


class Publication:
    """Takes a snapshot in, and is the answer to the request that brings it."""

    brief = True

    def __init__(
        self,
        engine: Engine,
        upload: Upload,
        command: PublishSnapshot,
        digest: bytes | None,
        incarnation: bytes | None,
        common: bytes,
        max_bytes: int,
    ) -> None:
        """Publish what comes by `command`, if it has the SHA-256 and the stream the incarnation that were announced."""
        self._engine = engine
        self._upload = upload
        self._command = command
        self._digest = digest
        self._incarnation = incarnation
        self._common = common
        self._exchange: Exchange | None = None
        self.max_bytes = max_bytes
        self.on_bytes: Callable[[int], None] = lambda _: None

    # While the body comes

    @property
    def congested(self) -> bool:
        """Whether the disk does not keep up."""
        return self._upload.congested

    @property
    def on_relief(self) -> Callable[[], None]:
        """Called when the disk has caught up."""
        return self._upload.on_relief or (lambda: None)

    @on_relief.setter
    def on_relief(self, relieve: Callable[[], None]) -> None:
        self._upload.on_relief = relieve

    def write(self, data: bytes) -> None:
        """Take the next bytes, or raise why all of them are in vain. `on_bytes` is told of them either way."""
        self.on_bytes(len(data))
        self._upload.write(data)

    def finish(self) -> "Publication":
        """Give the answer: it comes when the snapshot is stored."""
        return self

    # When it is whole

    def start(self, exchange: Exchange) -> None:
        """Wait until the bytes are durable."""
        self._exchange = exchange
        self._upload.finish(self._publish, self._break_off)

    def _publish(self, failure: ProtocolError | None) -> None:
        """Refer to what is stored, unless nobody waits for it any more."""
        if self._exchange is None:
            return
        try:
            response = self._published(failure)
        except ProtocolError as error:
            self._upload.cancel()
            response = problem_response(error, self._common)
        self._engine.when_durable(self._engine.last_change, lambda lost: self._answer(response, lost))

    def _published(self, failure: ProtocolError | None) -> Response:
        if failure:
            raise failure
        digest = self._upload.digest
        if self._digest not in {None, digest}:
            sent, stored = format_digest(self._digest or b"").decode(), format_digest(digest).decode()
            raise DigestMismatch(f"Content-Digest says {sent}, but what arrived has {stored}")
        if self._incarnation is not None:
            self._engine.require_incarnation(self._command.name, self._incarnation)
        command = replace(self._command, now=self._engine.clock.now())
        head = self._engine.publish(self._upload, command).head
        return Response(204, self._common + _lines(head, format_incarnation(head.identity, self._engine.epoch)))

    def _answer(self, response: Response, lost: Unavailable | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.respond(problem_response(lost, self._common) if lost else response)

    def _break_off(self) -> None:
        exchange = self._exchange
        self.cancel()
        if exchange is not None:
            exchange.abort()

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Take back what is not published yet."""
        self._exchange = None
        self._upload.cancel()

    def shut_down(self) -> None:
        """The answer comes soon by itself."""


def _lines(head: Head, incarnation: bytes) -> bytes:
    snapshot = head.kept.snapshot
    assert snapshot is not None  # noqa: S101 - it was just published
    return (
        b"%bStream-Incarnation: %b\r\nStream-Snapshot-Offset: %016d\r\nStream-Earliest-Offset: %016d\r\n"
        b"Content-Digest: %b\r\nETag: %b\r\n"
    ) % (
        NO_STORE_LINE,
        incarnation,
        snapshot.offset,
        head.kept.earliest,
        format_digest(snapshot.digest),
        format_snapshot_etag(snapshot),
    )
