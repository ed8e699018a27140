"""Backups over HTTP: `/admin/backups` pins the store, gives its files piece by piece, and lets it go again.

Whoever may read a backup may read everything, secrets included. So it takes the right to administer the whole server,
or, where the server asks nobody who they are, a program on the same machine. A pin ends with its lease: a client that
died holds nothing for long.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.protocol.errors import (
    BackupNotFound,
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    NothingToBackUp,
    Unavailable,
    quoted,
)
from everbrook.server.auth.origins import ORIGIN
from everbrook.server.auth.proxies import is_forwarded
from everbrook.server.errand import Errand
from everbrook.server.exchange import Exchange, Reply, Request, Response
from everbrook.server.problem import problem_response
from everbrook.server.render import json_response
from everbrook.server.routes import BACKUPS
from everbrook.settings.loopback import is_loopback
from everbrook.storage.backups.pieces import format_pieces, parse_asked, read_pieces
from everbrook.storage.pin import Pin

LEASE_SECS = 30
MAX_LEASE_SECS = 3600
MAX_BACKUPS = 8


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks for: after how many seconds without a word from it the backup ends."""

    lease_secs: int = LEASE_SECS


class Begun(Struct, frozen=True):
    """A backup that was begun: what it is called, of which kind of store, at which moment."""

    id: str
    store: str
    taken_at_ms: int
    lease_secs: int


class Lease:
    """A pin that ends by itself when nobody speaks of it."""

    def __init__(self, begun: Begun, pin: Pin, engine: Engine, end: Callable[[], None]) -> None:
        self.begun = begun
        self.pin = pin
        self._engine = engine
        self._end = end
        self._timer: Timer | None = None
        self.renew()

    def renew(self) -> None:
        """Begin the time anew."""
        self.cancel()
        self._timer = self._engine.scheduler.call_later(self.begun.lease_secs, self._end)

    def cancel(self) -> None:
        """Time nothing any more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None


class BackupResource:
    """What can be done to backups."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._leases: dict[str, Lease] = {}

    @cached_property
    def _worker(self) -> ThreadPoolExecutor:
        """One thread: a backup takes no more of the disk than one reader does."""
        return ThreadPoolExecutor(1, "everbrook-backup")

    def handle(self, request: Request, common: bytes) -> Reply:
        """Answer a request below `/admin/backups`."""
        require_administrator(request)
        rest = request.path[len(BACKUPS) :]
        if not rest:
            _require_method(request, b"POST")
            return Beginning(self, self._engine, common, _lease_secs(request.body))
        backup_id, _, part = rest.removeprefix(b"/").partition(b"/")
        lease = self._leases.get(backup_id.decode("latin-1"))
        if lease is None:
            raise _not_there(backup_id)
        lease.renew()
        return self._handle_part(request, common, lease, part)

    def _handle_part(self, request: Request, common: bytes, lease: Lease, part: bytes) -> Reply:
        if part == b"pieces":
            _require_method(request, b"POST")
            return self._pieces(request, common, lease)
        if part == b"files":
            _require_method(request, b"GET")
            folder = parse_qs(request.query.decode("latin-1")).get("folder", [""])[0]
            return self._listed(common, lease, lambda: lease.pin.files(folder))
        if part:
            raise NotFound(f"a backup has no {quoted(part)}, only files and pieces")
        if request.method == b"DELETE":
            self._release(lease)
            return Response(204, common)
        _require_method(request, b"GET", b"DELETE")
        return self._listed(common, lease, lease.pin.folders)

    def _listed(self, common: bytes, lease: Lease, find: Callable[[], object]) -> Errand:
        return self._errand(common, lease, lambda: json_response(200, common, msgspec.json.encode(find())))

    def _errand(self, common: bytes, lease: Lease, work: Callable[[], Response]) -> Errand:
        """Read something in a thread. If the pin is let go meanwhile, it is not what was pinned."""

        def read() -> Response:
            response = work()
            if lease.pin.released:
                raise _not_there(lease.begun.id.encode())
            return response

        return Errand(self._worker, common, read)

    def _pieces(self, request: Request, common: bytes, lease: Lease) -> Errand:
        try:
            asked = parse_asked(request.body)
        except ValueError as error:
            raise BadRequest(f"the pieces that are wanted can't be read: {error}") from None
        headers = b"%bContent-Type: application/octet-stream\r\nCache-Control: no-store\r\n" % common
        pin = lease.pin
        return self._errand(common, lease, lambda: Response(200, headers, format_pieces(read_pieces(pin, asked))))

    def require_room(self) -> None:
        """Refuse a backup if too many are under way."""
        if len(self._leases) >= MAX_BACKUPS:
            raise Unavailable(f"{len(self._leases)} backups are under way, and no more can be at once")

    def enter(self, pin: Pin, lease_secs: int) -> Begun:
        """Keep a pin for as long as its client speaks of it."""
        begun = Begun(self._engine.new_id(""), pin.store, self._engine.clock.now(), lease_secs)
        lease = Lease(begun, pin, self._engine, lambda: self._release(lease))
        self._leases[begun.id] = lease
        return begun

    def _release(self, lease: Lease) -> None:
        lease.cancel()
        if self._leases.pop(lease.begun.id, None):
            lease.pin.release()

    def close(self) -> None:
        """Let everything go."""
        for lease in list(self._leases.values()):
            self._release(lease)
        if "_worker" in self.__dict__:
            self._worker.shutdown()


class Beginning:
    """The answer to who begins a backup: it comes when the store is pinned."""

    brief = True

    def __init__(self, backups: BackupResource, engine: Engine, common: bytes, lease_secs: int) -> None:
        self._backups = backups
        self._engine = engine
        self._common = common
        self._lease_secs = lease_secs
        self._exchange: Exchange | None = None

    def start(self, exchange: Exchange) -> None:
        """Wait for what is on its way to the disk."""
        self._exchange = exchange
        self._engine.pin(self._take)

    def _take(self, pin: Pin | None, error: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            if pin:
                pin.release()
            return
        try:
            exchange.respond(self._answer(pin, error))
        except (NothingToBackUp, Unavailable) as refusal:
            if pin:
                pin.release()
            exchange.respond(problem_response(refusal, self._common))

    def _answer(self, pin: Pin | None, error: Exception | None) -> Response:
        if error:
            raise Unavailable(f"the store can't be backed up now: {error}")
        if pin is None:
            raise NothingToBackUp(
                "storage memory has no files to copy: `everbrook export` writes its streams to a file"
            )
        self._backups.require_room()
        begun = self._backups.enter(pin, self._lease_secs)
        lines = b"%bLocation: %b/%b\r\n" % (self._common, BACKUPS, begun.id.encode())
        return json_response(201, lines, msgspec.json.encode(begun))

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None

    def shut_down(self) -> None:
        """The answer comes soon by itself."""


def require_administrator(request: Request) -> None:
    """Refuse who is not known, unless it is a program on this machine. Who is known has passed the gates."""
    if request.identity is not None:
        return
    if not is_loopback(request.peer.address) or not _is_direct(request):
        raise Forbidden(
            "backups are given to programs on the same machine, or to who may administer the server: "
            "no way to prove that is configured, see auth in the settings"
        )


def _not_there(backup_id: bytes) -> BackupNotFound:
    return BackupNotFound(
        f"there is no backup {quoted(backup_id)}: it was released, nothing was heard of it for too long, or the "
        f"server was restarted"
    )


def _is_direct(request: Request) -> bool:
    """Tell whether nothing speaks of a proxy or of a page. A proxy that forwards without a word of it still names what
    it was asked for, or, as nginx does of itself, closes after each request.
    """
    headers = request.headers
    if is_forwarded(request) or ORIGIN in headers or headers.get(b"connection", b"").strip().lower() == b"close":
        return False
    return is_loopback(headers.get(b"host", b"").decode("latin-1"))


def _require_method(request: Request, *methods: bytes) -> None:
    if request.method not in methods:
        allow = ((b"Allow", b", ".join(methods)),)
        raise MethodNotAllowed(f"this resource does not know {quoted(request.method)}", allow)


def _lease_secs(body: bytes) -> int:
    try:
        wanted = msgspec.json.decode(body, type=Wanted) if body else Wanted()
    except msgspec.MsgspecError as error:
        raise BadRequest(f"a backup is asked for with lease_secs alone: {error}") from None
    if not 1 <= wanted.lease_secs <= MAX_LEASE_SECS:
        raise BadRequest(f"lease_secs must be from 1 to {MAX_LEASE_SECS}, got {wanted.lease_secs}")
    return wanted.lease_secs
