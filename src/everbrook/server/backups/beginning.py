"""The beginning of a backup: how long its lease is to be, and the answer that comes when the store is pinned."""

import msgspec
from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import BadRequest, NothingToBackUp, Unavailable
from everbrook.server.backups.leases import Leases
from everbrook.server.exchange import Exchange, Response
from everbrook.server.problem import problem_response
from everbrook.server.render import json_response
from everbrook.server.routes import BACKUPS
from everbrook.storage.pin import Pin

LEASE_SECS = 30
MAX_LEASE_SECS = 3600


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks for: after how many seconds without a word from it the backup ends."""

    lease_secs: int = LEASE_SECS


def parse_lease_secs(body: bytes) -> int:
    """Read what a client asks for."""
    try:
        wanted = msgspec.json.decode(body, type=Wanted) if body else Wanted()
    except msgspec.MsgspecError as error:
        raise BadRequest(f"a backup is asked for with lease_secs alone: {error}") from None
    if not 1 <= wanted.lease_secs <= MAX_LEASE_SECS:
        raise BadRequest(f"lease_secs must be from 1 to {MAX_LEASE_SECS}, got {wanted.lease_secs}")
    return wanted.lease_secs


class Beginning:
    """The answer to who begins a backup: it comes when the store is pinned."""

    brief = True

    def __init__(self, leases: Leases, engine: Engine, common: bytes, lease_secs: int) -> None:
        self._leases = leases
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
        self._leases.require_room()
        begun = self._leases.enter(pin, self._lease_secs)
        lines = b"%bLocation: %b/%b\r\n" % (self._common, BACKUPS, begun.id.encode())
        return json_response(201, lines, msgspec.json.encode(begun))

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
