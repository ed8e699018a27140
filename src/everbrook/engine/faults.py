"""Faults: exceptions in callbacks. A fault stops its callback only.

Every callback that shares the event loop with others runs through here: in a later turn, after a delay, periodically,
from another thread, or in a sequence. An exception in a callback is a bug. It is counted by the kind of the callback
and logged with its stack; the other callbacks run, and a periodic one runs again. A callback may fail at every change,
so the log gets at most one stack of each kind per second, with the number of those left out. The count has all of them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import TypeVar

from everbrook.engine.clock import Clock, Scheduler, Timer

logger = logging.getLogger(__name__)

LOG_EVERY_SECS = 1.0

Argument = TypeVar("Argument")


class Callback(StrEnum):
    """The kinds of callbacks."""

    ACCEPT = "accept"
    """Accepting connections, and their TLS handshakes."""
    ANSWER = "answer"
    """A parked response, released when its change is durable."""
    BACKUP = "backup"
    """The end of a backup's lease."""
    BETWEEN_GROUPS = "between_groups"
    """A call between two groups of changes, such as taking a pin."""
    CERTIFICATE = "certificate"
    """The check of the files of the certificate."""
    COMMIT = "commit"
    """A step of the committer. It is the only kind after which the store takes no more writes."""
    CONNECTION = "connection"
    """A timeout of a connection, or a request of it that waited."""
    DELIVERY = "delivery"
    """The delivery of a webhook."""
    EVICTION = "eviction"
    """The eviction of idle streams from memory."""
    FAILURE = "failure"
    """The notification that the store takes no more writes."""
    FOLLOWER = "follower"
    """A follower of durable changes."""
    HEARTBEAT = "heartbeat"
    """The watchdog message to systemd."""
    LIVE = "live"
    """A live read in a turn of its own: catching up, a keep-alive, its end."""
    LOCK = "lock"
    """The check of the lock of the store."""
    METRICS = "metrics"
    """A measurement in the background."""
    OTHER = "other"
    """Any other callback on the loop."""
    OVERLOAD = "overload"
    """The periodic measurement of the overload control."""
    READER = "reader"
    """A reader at the tail of a stream."""
    REGISTRY = "registry"
    """An append to the registry, the stream of all streams."""
    RESPONSE = "response"
    """A response that is made in several turns, or in a thread."""
    RIGHTS = "rights"
    """The check whether a live read is still authorized."""
    ROLL_BACK = "roll_back"
    """The notification that changes were rolled back for want of room."""
    SPACE = "space"
    """The removal of bytes that no stream retains any more."""
    STALL = "stall"
    """The watch for a disk that does not respond."""
    SUBSCRIPTION = "subscription"
    """A wake, a lease, or the search for new messages at the start."""
    TIMER = "timer"
    """An expiry, a retention policy, or the scan of stored streams for either."""
    UPLOAD = "upload"
    """The upload of a snapshot."""


Intercept = Callable[[Callback, Callable[..., object], tuple[object, ...]], object]
"""Makes a call in place of the guard. A test raises exceptions in it."""


class Faults:
    """Runs callbacks, and counts and logs their exceptions."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self.counts = dict.fromkeys(Callback, 0)
        self.intercept: Intercept | None = None
        """Lets a test raise exceptions in callbacks of any kind."""
        self._clock = clock
        self._scheduler = scheduler
        self._logged_at: dict[Callback, float] = {}
        self._unlogged = dict.fromkeys(Callback, 0)

    # Now

    def run(self, kind: Callback, callback: Callable[..., object], *args: object) -> Exception | None:
        """Run a callback. Returns the exception that it raised, which is counted and logged, or None."""
        try:
            if self.intercept is None:
                callback(*args)
            else:
                self.intercept(kind, callback, args)
        except Exception as error:  # noqa: BLE001 - a fault must not stop other callbacks
            self.note(kind)
            return error
        return None

    def each(
        self,
        kind: Callback,
        callbacks: Iterable[Callable[[Argument], object]],
        argument: Argument,
        failed: Callable[[], object] | None = None,
    ) -> None:
        """Run callbacks one after the other with one argument. It does what `run` does, faster for many callbacks.

        `failed` is called after an exception, before the next callback is taken from the iterable.
        """
        for callback in callbacks:
            try:
                if self.intercept is None:
                    callback(argument)
                else:
                    self.intercept(kind, callback, (argument,))
            except Exception:  # noqa: BLE001 - a fault must not stop the other callbacks
                self.note(kind)
                if failed:
                    self._recover(kind, failed)

    async def attempt(
        self, kind: Callback, work: Callable[[], Awaitable[object]], failed: Callable[[], object] | None = None
    ) -> None:
        """Run a task, and then `failed` if it raises an exception."""
        try:
            await work()
            if self.intercept is not None:
                self.intercept(kind, bool, ())
        except Exception:  # noqa: BLE001 - a fault must not stop other callbacks
            self.note(kind)
            if failed:
                self._recover(kind, failed)

    def note(self, kind: Callback) -> None:
        """Count the exception that is being handled, and log it with its stack. Call it in the `except` clause."""
        self.counts[kind] += 1
        # A fault at every change would fill the disk with stacks, so the rest is only counted.
        now, logged_at = self._clock.elapsed(), self._logged_at.get(kind)
        if logged_at is not None and now - logged_at < LOG_EVERY_SECS:
            self._unlogged[kind] += 1
            return
        self._logged_at[kind] = now
        unlogged, self._unlogged[kind] = self._unlogged[kind], 0
        more = f" ({unlogged} more since the last such line)" if unlogged else ""
        logger.exception("a callback failed: %s%s", kind, more)  # noqa: LOG004 - the caller handles it

    # In a later turn. `failed` is called, without arguments, after an exception: it restores the state that depends on
    # the callback having run.

    def soon(
        self, kind: Callback, callback: Callable[..., object], *args: object, failed: Callable[[], object] | None = None
    ) -> Timer:
        """Run a callback in the next turn of the loop."""
        return self._scheduler.call_soon(self._run, kind, callback, failed, *args)

    def soon_threadsafe(
        self, kind: Callback, callback: Callable[..., object], *args: object, failed: Callable[[], object] | None = None
    ) -> Timer:
        """Run a callback in the next turn of the loop. Any thread may call."""
        return self._scheduler.call_soon_threadsafe(self._run, kind, callback, failed, *args)

    def later(
        self,
        kind: Callback,
        delay_secs: float,
        callback: Callable[..., object],
        *args: object,
        failed: Callable[[], object] | None = None,
    ) -> Timer:
        """Run a callback after `delay_secs`."""
        return self._scheduler.call_later(delay_secs, self._run, kind, callback, failed, *args)

    def every(
        self,
        kind: Callback,
        pause_secs: float | Callable[[], float],
        callback: Callable[[], object],
        failed: Callable[[], object] | None = None,
    ) -> Timer:
        """Run a callback periodically, even if it raises, until the returned timer is cancelled."""
        return Periodic(self._scheduler, pause_secs, self.guarded(kind, callback, failed))

    def guarded(
        self, kind: Callback, callback: Callable[..., object], failed: Callable[[], object] | None = None
    ) -> Callable[..., None]:
        """Return a guarded callback, which raises nothing, for a caller outside of the scheduler."""
        return partial(self._run, kind, callback, failed)

    def _run(
        self, kind: Callback, callback: Callable[..., object], failed: Callable[[], object] | None, *args: object
    ) -> None:
        if self.run(kind, callback, *args) and failed:
            self._recover(kind, failed)

    def _recover(self, kind: Callback, failed: Callable[[], object]) -> None:
        try:
            failed()
        except Exception:  # noqa: BLE001 - a fault must not stop other callbacks
            self.note(kind)


class Periodic:
    """A periodic timer, with a pause after each call."""

    __slots__ = ("_call", "_pause_secs", "_scheduler", "_timer")

    def __init__(
        self, scheduler: Scheduler, pause_secs: float | Callable[[], float], call: Callable[[], object]
    ) -> None:
        """Begin with a pause. `call` must not raise."""
        self._scheduler = scheduler
        self._pause_secs = pause_secs
        self._call = call
        self._timer: Timer | None = None
        self._wait()

    def _wait(self) -> None:
        pause = self._pause_secs
        self._timer = self._scheduler.call_later(pause() if callable(pause) else pause, self._fire, self._call)

    def _fire(self, call: Callable[[], object]) -> None:
        due = self._timer
        call()
        # `call` may have cancelled this timer. Otherwise the pause begins now, so that a slow call never overlaps
        # itself.
        if self._timer is due and due is not None:
            self._wait()

    def cancel(self) -> None:
        """Stop calling."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
