"""Faults: exceptions in callbacks, which must stop nothing but the callback itself.

Everything that shares the loop with others runs through here: what comes in a later turn, after a time, periodically,
from another thread, or one of many after the other. A callback that raises is a bug of its own part. The exception is
counted by the kind of the callback and logged with its stack; the others go on, and what is periodic comes again. A
callback may fail at every change, so the log gets one stack of each kind in a while, with the number of those that it
left out; the count has all of them.
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
    """What raised."""

    ACCEPT = "accept"
    """Connections that are taken in, and encrypted."""
    ANSWER = "answer"
    """An answer that waited for its change to be durable."""
    BACKUP = "backup"
    """The end of a backup's lease."""
    BETWEEN_GROUPS = "between_groups"
    CERTIFICATE = "certificate"
    """A look at the files of the certificate."""
    COMMIT = "commit"
    """A step of the committer. It is the only kind after which the store takes no more writes."""
    CONNECTION = "connection"
    """What one connection is due: its timeouts, and requests that waited."""
    DELIVERY = "delivery"
    """A webhook that is sent."""
    EVICTION = "eviction"
    """Idle streams that leave memory."""
    FAILURE = "failure"
    """Who was told that the store takes no more writes."""
    FOLLOWER = "follower"
    """Somebody who follows what becomes durable."""
    HEARTBEAT = "heartbeat"
    """What systemd is told."""
    LIVE = "live"
    """A live read in a turn of its own: catching up, a keep-alive, its end."""
    LOCK = "lock"
    """A look at the lock of the store."""
    METRICS = "metrics"
    """What is measured in the background."""
    OTHER = "other"
    """Anything else that runs on the loop."""
    OVERLOAD = "overload"
    """The beat by which overload is noticed."""
    READER = "reader"
    """A reader at the tail of a stream."""
    REGISTRY = "registry"
    """The stream of all streams."""
    RESPONSE = "response"
    """An answer that is put together in several turns, or in a thread."""
    RIGHTS = "rights"
    """A look at whether a live read may go on."""
    ROLL_BACK = "roll_back"
    """Who was told which changes there was no room for."""
    SPACE = "space"
    """What is given back that nobody retains any more."""
    STALL = "stall"
    """The watch over a disk that does not answer."""
    SUBSCRIPTION = "subscription"
    """A wake, a lease, or the look for news at the start."""
    TIMER = "timer"
    """Upkeep: an expiry, a retention policy, the patrol."""
    UPLOAD = "upload"
    """A snapshot on its way into the store."""


Intercept = Callable[[Callback, Callable[..., object], tuple[object, ...]], object]
"""Makes a call in place of the guard, and may raise what the call itself does not."""


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
        """Run a callback. Gives its exception, which is noted, if it raises one."""
        try:
            if self.intercept is None:
                callback(*args)
            else:
                self.intercept(kind, callback, args)
        except Exception as error:  # noqa: BLE001 - whatever it is, it stops nothing else
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
        """Run callbacks one after the other, with one argument: as `run` does, and faster where there are many.

        `failed` is called after an exception, before the next callback is asked for.
        """
        for callback in callbacks:
            try:
                if self.intercept is None:
                    callback(argument)
                else:
                    self.intercept(kind, callback, (argument,))
            except Exception:  # noqa: BLE001 - one that fails stops no other
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
        except Exception:  # noqa: BLE001 - whatever it is, it stops nothing else
            self.note(kind)
            if failed:
                self._recover(kind, failed)

    def note(self, kind: Callback) -> None:
        """Count the exception that is being handled, and log it with its stack. Call it in the `except` clause."""
        self.counts[kind] += 1
        now, logged_at = self._clock.elapsed(), self._logged_at.get(kind)
        if logged_at is not None and now - logged_at < LOG_EVERY_SECS:
            self._unlogged[kind] += 1
            return
        self._logged_at[kind] = now
        unlogged, self._unlogged[kind] = self._unlogged[kind], 0
        more = f" ({unlogged} more since the last such line)" if unlogged else ""
        logger.exception("a callback failed: %s%s", kind, more)  # noqa: LOG004 - the caller handles it

    # In a turn of its own. `failed` is called, without arguments, after an exception: it puts right what depends on
    # the callback having run.

    def soon(
        self, kind: Callback, callback: Callable[..., object], *args: object, failed: Callable[[], object] | None = None
    ) -> Timer:
        """Run a callback after what is running now."""
        return self._scheduler.call_soon(self._run, kind, callback, failed, *args)

    def soon_threadsafe(
        self, kind: Callback, callback: Callable[..., object], *args: object, failed: Callable[[], object] | None = None
    ) -> Timer:
        """Run a callback soon, from another thread."""
        return self._scheduler.call_soon_threadsafe(self._run, kind, callback, failed, *args)

    def later(
        self,
        kind: Callback,
        delay_secs: float,
        callback: Callable[..., object],
        *args: object,
        failed: Callable[[], object] | None = None,
    ) -> Timer:
        """Run a callback after a time."""
        return self._scheduler.call_later(delay_secs, self._run, kind, callback, failed, *args)

    def every(
        self,
        kind: Callback,
        pause_secs: float | Callable[[], float],
        callback: Callable[[], object],
        failed: Callable[[], object] | None = None,
    ) -> Timer:
        """Run a callback again and again, whatever becomes of it, until the timer that this gives is cancelled."""
        return Periodic(self._scheduler, pause_secs, self.guarded(kind, callback, failed))

    def guarded(
        self, kind: Callback, callback: Callable[..., object], failed: Callable[[], object] | None = None
    ) -> Callable[..., None]:
        """Give a callback that raises nothing, for those who call it themselves."""
        return partial(self._run, kind, callback, failed)

    def _run(
        self, kind: Callback, callback: Callable[..., object], failed: Callable[[], object] | None, *args: object
    ) -> None:
        if self.run(kind, callback, *args) and failed:
            self._recover(kind, failed)

    def _recover(self, kind: Callback, failed: Callable[[], object]) -> None:
        try:
            failed()
        except Exception:  # noqa: BLE001 - whatever it is, it stops nothing else
            self.note(kind)


class Periodic:
    """Calls back again and again, with a pause after each call."""

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
        self._timer = self._scheduler.call_later(pause() if callable(pause) else pause, self._come, self._call)

    def _come(self, call: Callable[[], object]) -> None:
        due = self._timer
        call()
        if self._timer is due and due is not None:
            self._wait()

    def cancel(self) -> None:
        """Call back no more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
