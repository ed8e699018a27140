"""Leases of backups: each keeps the store pinned for as long as its client speaks of it.

A pin ends with its lease: a client that died holds nothing for long.
"""

from collections.abc import Callable

from msgspec import Struct

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.errors import BackupNotFound, Unavailable, quoted
from everbrook.storage.pin import Pin

MAX_BACKUPS = 8


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
        self.timer: Timer | None = None
        self.renew()

    def renew(self) -> None:
        """Begin the time anew."""
        self.cancel()
        # What could not be ended is ended when the time has passed once more.
        self.timer = self._engine.faults.later(Callback.BACKUP, self.begun.lease_secs, self._end, failed=self.renew)

    def cancel(self) -> None:
        """Time nothing any more."""
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
        """Give a lease that has not ended."""
        lease = self._by_id.get(backup_id.decode("latin-1"))
        if lease is None:
            raise not_there(backup_id)
        return lease

    def require_room(self) -> None:
        """Refuse a backup if too many are under way."""
        if len(self._by_id) >= MAX_BACKUPS:
            raise Unavailable(f"{len(self._by_id)} backups are under way, and no more can be at once")

    def enter(self, pin: Pin, lease_secs: int) -> Begun:
        """Keep a pin for as long as its client speaks of it."""
        begun = Begun(self._engine.clock.token(), pin.store, self._engine.clock.now(), lease_secs)
        lease = Lease(begun, pin, self._engine, lambda: self.release(lease))
        self._by_id[begun.id] = lease
        return begun

    def release(self, lease: Lease) -> None:
        """Let a pin go."""
        lease.cancel()
        if self._by_id.pop(lease.begun.id, None):
            lease.pin.release()

    def close(self) -> None:
        """Let everything go."""
        for lease in list(self._by_id.values()):
            self.release(lease)


def not_there(backup_id: bytes) -> BackupNotFound:
    """Say what may have become of a backup."""
    return BackupNotFound(
        f"there is no backup {quoted(backup_id)}: it was released, nothing was heard of it for too long, or the "
        f"server was restarted"
    )
