"""The resource at `/admin/backups`: clients begin, list, read and release backups.

A backup pins the store. The pin has a lease that each request of the client renews, so that the pin of a dead client is
released soon. A backup contains everything, secrets included. So it needs the right to administer the whole server, or,
without a policy, a program on the same machine.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.errors import (
    BackupNotFound,
    BadRequest,
    Forbidden,
    NotFound,
    NothingToBackUp,
    Unavailable,
    quoted,
)
from everbrook.server.auth.proxies import is_forwarded
from everbrook.server.cors import ORIGIN
from everbrook.server.deferred import Threaded
from everbrook.server.exchange import Deferred, Exchange, Reply, Request, Response, problem_response
from everbrook.server.methods import refuse_method
from everbrook.server.resources.headers import json_response, no_content
from everbrook.server.routes import BACKUPS
from everbrook.settings.loopback import host_of, is_loopback
from everbrook.storage.api import Pin
from everbrook.storage.backups.pieces import format_pieces, parse_asked, read_pieces

LEASE_SECS = 30
MAX_LEASE_SECS = 3600
MAX_BACKUPS = 8


class LeaseRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request that begins a backup: after how many seconds without a request the backup ends."""

    lease_secs: int = LEASE_SECS


class Begun(Struct, frozen=True):
    """A backup that was begun: its id, the kind of store, and the moment whose state it contains."""

    id: str
    store: str
    taken_at_ms: int
    lease_secs: int


class Lease:
    """A pin that is released when its client has sent no request for some time."""

    def __init__(self, begun: Begun, pin: Pin, engine: Engine, end: Callable[[], None]) -> None:
        self.begun = begun
        self.pin = pin
        self._engine = engine
        self._end = end
        self.timer: Timer | None = None
        self.renew()

    def renew(self) -> None:
        """Restart the timer."""
        self.cancel()
        # If the release fails, it is tried again after the same time.
        self.timer = self._engine.faults.later(Callback.BACKUP, self.begun.lease_secs, self._end, failed=self.renew)

    def cancel(self) -> None:
        if self.timer:
            self.timer.cancel()
            self.timer = None


class Leases:
    """The backups that are under way, by their ids."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_id: dict[str, Lease] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, backup_id: bytes) -> Lease:
        """Return a lease that has not ended."""
        lease = self._by_id.get(backup_id.decode("latin-1"))
        if lease is None:
            raise no_such_backup(backup_id)
        return lease

    def require_room(self) -> None:
        """Refuse a backup if too many are under way."""
        if len(self._by_id) >= MAX_BACKUPS:
            raise Unavailable(f"{len(self._by_id)} backups are under way, which is the limit")

    def enter(self, pin: Pin, lease_secs: int) -> Begun:
        """Register a pin under a new lease."""
        begun = Begun(self._engine.clock.token(), pin.store, self._engine.clock.now(), lease_secs)
        lease = Lease(begun, pin, self._engine, lambda: self.release(lease))
        self._by_id[begun.id] = lease
        return begun

    def release(self, lease: Lease) -> None:
        """End a lease, and release its pin."""
        lease.cancel()
        if self._by_id.pop(lease.begun.id, None):
            lease.pin.release()

    def close(self) -> None:
        for lease in list(self._by_id.values()):
            self.release(lease)


class BackupStart(Deferred):
    """The response to the request that begins a backup. It is sent when the store is pinned."""

    def __init__(self, leases: Leases, engine: Engine, common: bytes, lease_secs: int) -> None:
        self._leases = leases
        self._engine = engine
        self._common = common
        self._lease_secs = lease_secs

    def start(self, exchange: Exchange) -> None:
        """Pin the store as soon as all changes that were decided before are durable."""
        self.exchange = exchange
        self._engine.pin(self._take)

    def _take(self, pin: Pin | None, error: Exception | None) -> None:
        if self.exchange is None:
            # The client is gone, so no request would ever release the pin.
            if pin:
                pin.release()
            return
        try:
            self.respond(self._begun(pin, error))
        # The pin has no lease yet, so only this can release it.
        except (NothingToBackUp, Unavailable) as refusal:
            if pin:
                pin.release()
            self.respond(problem_response(refusal, self._common))

    def _begun(self, pin: Pin | None, error: Exception | None) -> Response:
        if error:
            raise Unavailable(f"the store can't be backed up now: {error}")
        if pin is None:
            raise NothingToBackUp(
                "storage memory has no files to copy: `everbrook export` writes its streams to a file"
            )
        self._leases.require_room()
        begun = self._leases.enter(pin, self._lease_secs)
        lines = b"%bLocation: %b/%b\r\n" % (self._common, BACKUPS, begun.id.encode())
        return json_response(201, lines, msgspec.json.encode(begun))


class BackupResource:
    """The backups that are under way, as a resource."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.leases = Leases(engine)

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        """A single thread, so that backups load the disk no more than one reader does."""
        return ThreadPoolExecutor(1, "everbrook-backup")

    def handle(self, request: Request, common: bytes) -> Reply:
        """Handle a request below `/admin/backups`."""
        require_administrator(request)
        rest = request.path[len(BACKUPS) :]
        if not rest:
            _require_method(request, b"POST")
            return BackupStart(self.leases, self._engine, common, parse_lease_secs(request.body))
        backup_id, _, part = rest.removeprefix(b"/").partition(b"/")
        lease = self.leases.find(backup_id)
        # Each request of the client renews the lease, whatever its result.
        lease.renew()
        return self._handle_part(request, common, lease, part)

    def _handle_part(self, request: Request, common: bytes, lease: Lease, part: bytes) -> Reply:
        if part == b"pieces":
            _require_method(request, b"POST")
            return self._pieces(request, common, lease)
        if part == b"files":
            _require_method(request, b"GET")
            folder = parse_qs(request.query.decode("latin-1")).get("folder", [""])[0]
            return self._list(common, lease, lambda: lease.pin.files(folder))
        if part:
            raise NotFound(f"a backup has no {quoted(part)}, only files and pieces")
        if request.method == b"DELETE":
            self.leases.release(lease)
            return no_content(common)
        _require_method(request, b"GET", b"DELETE")
        return self._list(common, lease, lease.pin.folders)

    def _pieces(self, request: Request, common: bytes, lease: Lease) -> Threaded:
        try:
            asked = parse_asked(request.body)
        except ValueError as error:
            raise BadRequest(f"the body must be a list of pieces: {error}") from None
        headers = b"%bContent-Type: application/octet-stream\r\nCache-Control: no-store\r\n" % common
        pin = lease.pin
        return self._read(common, lease, lambda: Response(200, headers, format_pieces(read_pieces(pin, asked))))

    def _list(self, common: bytes, lease: Lease, find: Callable[[], object]) -> Threaded:
        return self._read(common, lease, lambda: json_response(200, common, msgspec.json.encode(find())))

    def _read(self, common: bytes, lease: Lease, work: Callable[[], Response]) -> Threaded:
        """Read from the pinned store in a thread.

        The lease may end while the thread reads. Then the files may have changed under it, so the result is discarded.
        """

        def read() -> Response:
            response = work()
            if lease.pin.released:
                raise no_such_backup(lease.begun.id.encode())
            return response

        return Threaded(read, common, self._engine.faults, self._thread)

    def close(self) -> None:
        self.leases.close()
        if "_thread" in self.__dict__:
            self._thread.shutdown()


def parse_lease_secs(body: bytes) -> int:
    """Read the time of a lease from the body of the request that begins a backup."""
    try:
        wanted = msgspec.json.decode(body, type=LeaseRequest) if body else LeaseRequest()
    except msgspec.MsgspecError as error:
        raise BadRequest(f"the body may contain lease_secs only: {error}") from None
    if not 1 <= wanted.lease_secs <= MAX_LEASE_SECS:
        raise BadRequest(f"lease_secs must be from 1 to {MAX_LEASE_SECS}, got {wanted.lease_secs}")
    return wanted.lease_secs


def no_such_backup(backup_id: bytes) -> BackupNotFound:
    """Return a refusal with the possible reasons."""
    return BackupNotFound(
        f"there is no backup {quoted(backup_id)}: it was released, its lease ended without a request, or the "
        f"server was restarted"
    )


def require_administrator(request: Request) -> None:
    """Refuse a request without an identity, unless a program on this machine sent it.

    A request with an identity has passed the gates, which require the right to administer.
    """
    if request.identity is not None:
        return
    if not is_loopback(request.peer.address) or not _is_direct(request):
        raise Forbidden(
            "a backup needs the right to administer the server. This server has no policy (see auth in the settings), "
            "so only programs on the same machine may back it up"
        )


def _is_direct(request: Request) -> bool:
    """Tell whether no sign shows that a proxy or a web page sent the request.

    A proxy that adds no header of its own still forwards the `Host` of its client, or, as nginx does by default, closes
    the connection after each request.
    """
    headers = request.headers
    if is_forwarded(request) or ORIGIN in headers or headers.get(b"connection", b"").strip().lower() == b"close":
        return False
    return is_loopback(host_of(headers.get(b"host", b"").decode("latin-1")))


def _require_method(request: Request, *methods: bytes) -> None:
    if request.method not in methods:
        raise refuse_method(request.method, b", ".join(methods))
