"""The resource at `/admin/backups`: a backup is begun, listed, read and released."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from urllib.parse import parse_qs

import msgspec

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import BadRequest, NotFound, quoted
from everbrook.server.backups.administrators import require_administrator
from everbrook.server.backups.beginning import Beginning, parse_lease_secs
from everbrook.server.backups.leases import Lease, Leases, not_there
from everbrook.server.errand import Errand
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.methods import refuse_method
from everbrook.server.render import json_response, no_content
from everbrook.server.routes import BACKUPS
from everbrook.storage.backups.pieces import format_pieces, parse_asked, read_pieces


class BackupResource:
    """What can be done to backups."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.leases = Leases(engine)

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
            return Beginning(self.leases, self._engine, common, parse_lease_secs(request.body))
        backup_id, _, part = rest.removeprefix(b"/").partition(b"/")
        lease = self.leases.find(backup_id)
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
            self.leases.release(lease)
            return no_content(common)
        _require_method(request, b"GET", b"DELETE")
        return self._listed(common, lease, lease.pin.folders)

    def _listed(self, common: bytes, lease: Lease, find: Callable[[], object]) -> Errand:
        return self._errand(common, lease, lambda: json_response(200, common, msgspec.json.encode(find())))

    def _errand(self, common: bytes, lease: Lease, work: Callable[[], Response]) -> Errand:
        """Read something in a thread. If the pin is let go meanwhile, it is not what was pinned."""

        def read() -> Response:
            response = work()
            if lease.pin.released:
                raise not_there(lease.begun.id.encode())
            return response

        return Errand(self._worker, common, read, self._engine.faults)

    def _pieces(self, request: Request, common: bytes, lease: Lease) -> Errand:
        try:
            asked = parse_asked(request.body)
        except ValueError as error:
            raise BadRequest(f"the pieces that are wanted can't be read: {error}") from None
        headers = b"%bContent-Type: application/octet-stream\r\nCache-Control: no-store\r\n" % common
        pin = lease.pin
        return self._errand(common, lease, lambda: Response(200, headers, format_pieces(read_pieces(pin, asked))))

    def close(self) -> None:
        """Let everything go."""
        self.leases.close()
        if "_worker" in self.__dict__:
            self._worker.shutdown()


def _require_method(request: Request, *methods: bytes) -> None:
    if request.method not in methods:
        raise refuse_method(request.method, b", ".join(methods))
