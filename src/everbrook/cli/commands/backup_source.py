"""The store of a running server, as the source of a backup: the server pins it, and the files are read over HTTP.

A thread renews the lease of the pin, however long this side is busy. When this process is gone, the lease ends and the
server releases the pin.
"""

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from everbrook.cli.connection import shown_url
from everbrook.client._sync.transport import Transport
from everbrook.client.errors import ClientError, InvalidAnswer, Unreachable
from everbrook.client.retry import Retry
from everbrook.client.wire.request import ConnectionBroken
from everbrook.protocol.errors import ProtocolError
from everbrook.storage.api import PinnedFile
from everbrook.storage.backups.backup import BackupError, GivenUp, format_name, require_store
from everbrook.storage.backups.pieces import Asked, Piece, PieceCorrupted, parse_pieces

if TYPE_CHECKING:
    import httpx2

    from everbrook.client._sync.wire import Wire

T = TypeVar("T")

BACKUPS = "/admin/backups"
TIMEOUT_SECS = 60.0
_GONE = "backup_not_found"
_ID = re.compile(r"[\w-]{1,200}")


class StartedBackup(Struct, frozen=True):
    """A backup that a server has begun."""

    id: str
    store: str
    taken_at_ms: int
    lease_secs: int


class ServerSource:
    """A pinned store, until the end of a `with`."""

    def __init__(
        self, url: str, token: str | None, wire: "httpx2.Client | Wire", lease_secs: int, given_up: threading.Event
    ) -> None:
        """Ask the server at a URL for a lease of so many seconds. Once `given_up` is set, no request is sent."""
        self._root = url.rstrip("/")
        self.url = shown_url(self._root)
        self._transport = Transport(
            wire,
            home=self._root,
            token=token,
            # Compressing the pieces would take time of the server, which has other clients.
            headers={"Accept-Encoding": "identity"},
            params={},
            retry=Retry(),
            timeout_secs=TIMEOUT_SECS,
        )
        self._lease_secs = lease_secs
        self._given_up = given_up
        self._begun: StartedBackup | None = None
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        body = msgspec.json.encode({"lease_secs": self._lease_secs})
        begun = self._decode(self._ask("POST", BACKUPS, body), StartedBackup)
        self._require_valid(begun)
        self._begun = begun
        self._renewing.start()
        return self

    def _require_valid(self, begun: StartedBackup) -> None:
        """Refuse names that are unsafe as names of folders: the server is not trusted."""
        try:
            require_store(begun.store)
            format_name(begun.taken_at_ms)
        except BackupError as error:
            raise InvalidAnswer(f"{self.url} does not answer as a server that can be backed up: {error}") from error
        if begun.lease_secs < 1 or not _ID.fullmatch(begun.id):
            raise InvalidAnswer(f"{self.url} does not answer as a server that can be backed up: {begun}")

    def _renew(self) -> None:
        """Renew the lease. If that fails until the lease ends, the next request for data is refused."""
        while not self._ended.wait(self.begun.lease_secs / 4):
            self._try("GET")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Have the server release the pin. If the request fails, the lease ends by itself."""
        self._ended.set()
        self._renewing.join()
        self._try("DELETE")

    def _try(self, method: str) -> None:
        with suppress(ConnectionBroken, ProtocolError, ClientError):
            self._transport.ask(method, self._root + self._place)

    @property
    def begun(self) -> StartedBackup:
        """The server's description of the backup."""
        if self._begun is None:
            raise RuntimeError("the backup was not begun")
        return self._begun

    @property
    def _place(self) -> str:
        return f"{BACKUPS}/{self.begun.id}"

    def folders(self) -> list[str]:
        return self._decode(self._ask("GET", self._place), list[str])

    def files(self, folder: str) -> list[PinnedFile]:
        return self._decode(self._ask("GET", f"{self._place}/files?folder={quote(folder)}"), list[PinnedFile])

    def pieces(self, asked: Sequence[Asked]) -> list[Piece]:
        """Request pieces, and verify them."""
        try:
            pieces = parse_pieces(self._ask("POST", f"{self._place}/pieces", msgspec.json.encode(asked)))
        except PieceCorrupted as error:
            raise InvalidAnswer(str(error)) from error
        if not 1 <= len(pieces) <= len(asked):
            raise InvalidAnswer(f"the server was asked for {len(asked)} pieces, and sent {len(pieces)}")
        if any(len(piece.data) > each.size for each, piece in zip(asked, pieces, strict=False)):
            raise InvalidAnswer("the server sent a piece that is longer than requested")
        return pieces

    def _decode(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise InvalidAnswer(f"{self.url} does not answer as a server that can be backed up: {error}") from error

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send a request and return the body of the response.

        Once the backup has begun, a request that failed is repeated: repetitions do no harm then. The first request is
        not repeated, so that a wrong URL is reported at once, and the server pins its store once.
        """
        attempts = self._transport.attempts(f"{method} {self.url}{path}")
        while not self._given_up.is_set():
            try:
                return self._transport.ask(method, self._root + path, content=body).content
            except ConnectionBroken as failure:
                if self._begun is None:
                    raise Unreachable(
                        f"no response from {self.url}: {str(failure) or type(failure).__name__}"
                    ) from failure
                delay_secs = attempts.delay_after(failure)
            except ProtocolError as refusal:
                if self._begun is None:
                    raise
                if refusal.code == _GONE:
                    raise self._forgotten(self._begun) from refusal
                delay_secs = attempts.delay_after(refusal)
            # Unlike a sleep, this ends as soon as the user interrupts the backup.
            self._given_up.wait(delay_secs)
        raise GivenUp("the backup was given up")

    def _forgotten(self, begun: StartedBackup) -> BackupError:
        return BackupError(
            f"{self.url} does not know this backup any more: the server was restarted, or got no request for "
            f"{begun.lease_secs} s. Run the same command again: it copies only what is missing"
        )
