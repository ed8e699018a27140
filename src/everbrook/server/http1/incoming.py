"""A body that may be taken as it comes: it begins in its turn, and is bounded like every other.

Its request must not overtake those before it. Until they are handled nothing asks whether it is welcome, and what has
arrived is held; the connection reads no more meanwhile.
"""

from collections.abc import Callable

from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, Unauthorized
from everbrook.server.application import Application
from everbrook.server.exchange import Reply, Request, Upload
from everbrook.server.vigil import require_rights

# Smaller pieces are gathered: a thousand tiny chunks must not cost a thousand writes.
PIECE_BYTES = 64 * 1024


class Incoming:
    """The body of one request, on its way to an `Upload`, or to be gathered where the request is for none."""

    __slots__ = ("_held", "_length", "_max_bytes", "_size", "_upload", "error", "waiting")

    def __init__(self, length: int, max_bytes: int) -> None:
        """Take the length that is declared, if any, and the limit for a body that is gathered."""
        self._length = length
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._size = 0
        self._upload: Upload | None = None
        self.waiting = True
        self.error: ProtocolError | None = None

    @property
    def accepted(self) -> bool:
        """Whether the body is welcome."""
        return not self.waiting and self.error is None

    @property
    def blocked(self) -> bool:
        """Whether no more of the body should be read for now."""
        return self.waiting or (self._upload is not None and self._upload.congested)

    @property
    def held_bytes(self) -> int:
        """How much is kept in memory."""
        return len(self._held)

    def begin(self, application: Application, request: Request, on_relief: Callable[[], None]) -> None:
        """Ask whether the body is welcome: the turn of its request has come."""
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
        """Take the next bytes."""
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
        """Answer the request: its body is whole, and its turn has come."""
        if self.waiting:
            self.begin(application, request, on_relief)
        if self._upload is not None:
            self._check_rights(request)
        self._pass_on(1)
        upload, self._upload = self._upload, None
        if self.error is not None:
            refusal = application.refuse(self.error, request.headers, request)
            refusal.rests_on = application.engine.last_change
            return refusal
        if upload is not None:
            return upload.finish()
        request.body = bytes(self._held)
        return application.handle(request)

    def _check_rights(self, request: Request) -> None:
        """Refuse what was welcome once. A body that was gathered passes the gates again instead."""
        try:
            require_rights(request)
        except Unauthorized as error:
            self._fail(error)

    def cancel(self) -> None:
        """Let everything go."""
        self._held.clear()
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.cancel()
