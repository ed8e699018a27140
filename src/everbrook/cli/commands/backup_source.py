"""The store of a running server, as a source of a backup: pinned there, and read over HTTP.

The server hears of it now and then, even while there is much to do on this side; when this process is gone it hears
nothing, and goes on alone.
"""

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from everbrook.cli.connection import shown_url
from everbrook.client.errors import InvalidAnswer, Unreachable
from everbrook.client.refusals import refusal_of
from everbrook.client.wire.httpx import tls_context
from everbrook.storage.backups.backup import BackupError, GivenUp, format_name, require_store
from everbrook.storage.backups.pieces import Asked, Piece, PieceCorrupted, parse_pieces
from everbrook.storage.pin import PinnedFile

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

BACKUPS = "/admin/backups"
TIMEOUT_SECS = 60.0
ATTEMPTS = 8
MAX_PAUSE_SECS = 10.0
_GONE = "backup_not_found"
_NOT_NOW = {429, 503}
_ID = re.compile(r"[\w-]{1,200}")


class Begun(Struct, frozen=True):
    """A backup that a server has begun."""

    id: str
    store: str
    taken_at_ms: int
    lease_secs: int


class ServerSource:
    """A pinned store, until the end of a `with`."""

    def __init__(
        self,
        url: str,
        token: str | None,
        context: "ssl.SSLContext | None",
        lease_secs: int,
        given_up: threading.Event,
    ) -> None:
        """Ask the server at a URL for a lease of so many seconds. Once it is `given_up`, nothing more is asked."""
        self._root = url.rstrip("/")
        self.url = shown_url(self._root)
        # Whole pieces are wanted, as they are.
        headers = {"Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx2.Client(headers=headers, verify=context or tls_context(), timeout=TIMEOUT_SECS)
        self._lease_secs = lease_secs
        self._given_up = given_up
        self._begun: Begun | None = None
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        try:
            body = msgspec.json.encode({"lease_secs": self._lease_secs})
            begun = self._decode(self._ask("POST", BACKUPS, body), Begun)
            self._require_sense(begun)
            self._begun = begun
        except BaseException:
            self._http.close()
            raise
        self._renewing.start()
        return self

    def _require_sense(self, begun: Begun) -> None:
        """Refuse names that are unsafe as names of folders here: the server is not trusted."""
        try:
            require_store(begun.store)
            format_name(begun.taken_at_ms)
        except BackupError as error:
            raise InvalidAnswer(f"{self.url} does not answer as a server that can be backed up: {error}") from error
        if begun.lease_secs < 1 or not _ID.fullmatch(begun.id):
            raise InvalidAnswer(f"{self.url} does not answer as a server that can be backed up: {begun}")

    def _renew(self) -> None:
        """Renew the lease. If that fails for too long, the next request for data gets the error."""
        while not self._ended.wait(self.begun.lease_secs / 4):
            with suppress(httpx2.HTTPError):
                self._http.get(self._root + self._place)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let the server go on alone. If it can't be told, the lease ends by itself."""
        self._ended.set()
        self._renewing.join()
        with suppress(httpx2.HTTPError):
            self._http.delete(self._root + self._place)
        self._http.close()

    @property
    def begun(self) -> Begun:
        """What the server says of the backup."""
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
        """Give pieces, verified."""
        try:
            pieces = parse_pieces(self._ask("POST", f"{self._place}/pieces", msgspec.json.encode(asked)))
        except PieceCorrupted as error:
            raise InvalidAnswer(str(error)) from error
        if not 1 <= len(pieces) <= len(asked):
            raise InvalidAnswer(f"the server was asked for {len(asked)} pieces, and gave {len(pieces)}")
        if any(len(piece.data) > each.size for each, piece in zip(asked, pieces, strict=False)):
            raise InvalidAnswer("the server gave a piece that is longer than what it was asked for")
        return pieces

    def _decode(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise InvalidAnswer(f"{self.url} does not answer as a server that can be backed up: {error}") from error

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Ask, and once the backup has begun, ask again if the server is busy: nothing is done twice by it."""
        response = self._send(method, path, body)
        for attempt in range(ATTEMPTS):
            if self._begun is None or response.status_code not in _NOT_NOW:
                break
            self._given_up.wait(_pause_secs(response, attempt))
            response = self._send(method, path, body)
        if response.is_success:
            return response.content
        raise self._refusal(response)

    def _send(self, method: str, path: str, body: bytes) -> httpx2.Response:
        if self._given_up.is_set():
            raise GivenUp("the backup was given up")
        try:
            return self._http.request(method, self._root + path, content=body)
        except httpx2.HTTPError as error:
            raise Unreachable(f"no answer from {self.url}: {str(error) or type(error).__name__}") from error

    def _refusal(self, response: httpx2.Response) -> Exception:
        refusal = refusal_of(response.status_code, response.headers, response.content, f"backup of {self.url}")
        if self._begun and refusal.code == _GONE:
            return BackupError(
                f"{self.url} does not know this backup any more: it was restarted, or heard nothing for "
                f"{self.begun.lease_secs} s. Run the same command again: what is copied stays"
            )
        return refusal


def _pause_secs(response: httpx2.Response, attempt: int) -> float:
    """Give the pause before the next attempt: `Retry-After`, up to a bound, or an exponential one."""
    said = response.headers.get("retry-after", "")
    return min(float(said) if said.isdigit() else 0.2 * 2**attempt, MAX_PAUSE_SECS)
