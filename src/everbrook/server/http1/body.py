"""Requests of HTTP/1.x, and bodies that are processed while they arrive.

Such a body must not overtake the requests before its own: whether it is accepted may depend on what they change. So
the application decides about the body only after it has handled them. Until then the bytes that have arrived are held,
and the connection is not read.
"""

from collections.abc import Callable

from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, Unauthorized
from everbrook.server.application import Application
from everbrook.server.auth.policy import require_rights
from everbrook.server.exchange import Reply, Request, Upload

KEPT = b""
KEPT_1_0 = b"Connection: keep-alive\r\n"

# Smaller pieces are buffered, so that a thousand tiny chunks do not cost a thousand writes.
PIECE_BYTES = 64 * 1024


class IncomingBody:
    """The body of one request: it goes to an `Upload` while it arrives, or is buffered if there is no upload."""

    __slots__ = ("_held", "_length", "_max_bytes", "_size", "_upload", "error", "waiting")

    def __init__(self, length: int, max_bytes: int) -> None:
        """`length` is the declared one, 0 if unknown; `max_bytes` limits a body that is buffered."""
        self._length = length
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._size = 0
        self._upload: Upload | None = None
        self.waiting = True
        self.error: ProtocolError | None = None

    @property
    def accepted(self) -> bool:
        """Whether the application has decided to accept the body."""
        return not self.waiting and self.error is None

    @property
    def blocked(self) -> bool:
        """Whether reading must pause: the body waits for its turn, or its upload for the disk."""
        return self.waiting or (self._upload is not None and self._upload.congested)

    @property
    def held_bytes(self) -> int:
        """The size of the part that is buffered in memory."""
        return len(self._held)

    def begin(self, application: Application, request: Request, on_relief: Callable[[], None]) -> None:
        """Let the application accept or refuse the body, because it is the turn of its request."""
        self.waiting = False
        try:
            upload = self._upload = application.receive(request)
        except ProtocolError as error:
            self._fail(error)
            return
        if upload is not None:
            upload.on_relief = on_relief
            self._max_bytes = upload.max_bytes
        if max(self._length, self._size) > self._max_bytes:
            self._fail_for_size()
        else:
            self._pass_on(PIECE_BYTES)

    def write(self, data: bytes) -> None:
        """Process the next bytes."""
        self._size += len(data)
        if self.error is not None:
            return
        if self._size > self._max_bytes and not self.waiting:
            self._fail_for_size()
        elif self._upload is not None and not self._held and len(data) >= PIECE_BYTES:
            self._hand_over(self._upload, data)
        else:
            self._held += data
            self._pass_on(PIECE_BYTES)

    def _pass_on(self, min_bytes: int) -> None:
        if self._upload is not None and len(self._held) >= min_bytes:
            data = bytes(self._held)
            self._held.clear()
            self._hand_over(self._upload, data)

    def _hand_over(self, upload: Upload, data: bytes) -> None:
        try:
            upload.write(data)
        except ProtocolError as error:
            self._fail(error)

    def _fail_for_size(self) -> None:
        self._fail(PayloadTooLarge(f"the body holds at most {self._max_bytes} bytes"))

    def _fail(self, error: ProtocolError) -> None:
        self.error = error
        self.cancel()

    def finish(self, application: Application, request: Request, on_relief: Callable[[], None]) -> Reply:
        """Handle the request: its body is complete, and it is its turn."""
        if self.waiting:
            self.begin(application, request, on_relief)
        if self._upload is not None:
            self._check_rights(request)
        self._pass_on(1)
        upload, self._upload = self._upload, None
        if self.error is not None:
            # As for other requests, the refusal may be due to a change that is not durable yet.
            refusal = application.refuse(self.error, request.headers, request)
            refusal.rests_on = application.engine.last_change
            return refusal
        if upload is not None:
            return upload.finish()
        request.body = bytes(self._held)
        return application.handle(request)

    def _check_rights(self, request: Request) -> None:
        """Refuse an upload whose rights have ended since it began. A buffered body passes the gates again instead."""
        try:
            require_rights(request)
        except Unauthorized as error:
            self._fail(error)

    def cancel(self) -> None:
        """Release the buffered bytes, and cancel the upload."""
        self._held.clear()
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.cancel()


class Http1Request(Request, kw_only=True, gc=False):
    """A request, with what it means for its connection.

    `connection` is the header line for a connection that stays open, and None if the connection must end. A client of
    HTTP/1.0 knows no chunks and is not `chunkable`: there the end of the connection ends a streamed response.
    """

    connection: bytes | None
    chunkable: bool


class StreamedRequest(Http1Request, kw_only=True, gc=True):
    """A request that is dispatched before its body is complete."""

    incoming: IncomingBody
