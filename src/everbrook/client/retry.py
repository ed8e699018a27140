"""Which failed requests are sent again, and after which delay.

The rule: a request that certainly had no effect may be repeated; one that may have had an effect only if a repetition
does no harm.
"""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from math import inf, isfinite

from msgspec import Struct

from everbrook.client.errors import AppendUncertain, NotAStream, Unreachable
from everbrook.client.refusals import header_of
from everbrook.client.wire.request import ConnectionBroken, NotConnected
from everbrook.protocol.errors import ProtocolError, StreamDamaged, TooManyProducers

Failure = ConnectionBroken | ProtocolError | NotAStream

# Temporary refusals of the server itself, which then has not processed the request. 502 and 504 are missing: they come
# from a gateway, and the server behind it may have processed the request.
_NOT_NOW = {408, 425, 429, 500, 503}
_SERVER_FAULT, _NEVER = 500, {501, 505}
_LASTING = (StreamDamaged, TooManyProducers)
# A wrong Retry-After, or a wrong clock behind its date, must not stop a client for hours.
MAX_RETRY_AFTER_SECS = 120.0
MAX_MULTIPLIER = 1000


class Retry(Struct, frozen=True):
    """How often a request is sent, and the delays between: exponential, with a jitter of up to half of each."""

    max_attempts: float = 8
    first_delay_secs: float = 0.1
    max_delay_secs: float = 10.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        """Check the bounds."""
        if not self.max_attempts >= 1:
            raise ValueError(f"max_attempts must be at least 1, got {self.max_attempts}")
        if not (self.first_delay_secs > 0 and isfinite(self.first_delay_secs)):
            raise ValueError(f"first_delay_secs must be a number above 0, got {self.first_delay_secs}")
        if not (self.max_delay_secs >= self.first_delay_secs and isfinite(self.max_delay_secs)):
            raise ValueError(f"max_delay_secs must be a number not below first_delay_secs, got {self.max_delay_secs}")
        if not (1 <= self.multiplier <= MAX_MULTIPLIER):
            raise ValueError(f"multiplier must be from 1 to {MAX_MULTIPLIER}, got {self.multiplier}")

    def delay_secs(self, failures: int, chance: float) -> float:
        """Return the delay after this number of failures in a row; `chance` is a random number from 0 to 1."""
        longest = min(self.first_delay_secs * self.multiplier ** min(failures - 1, 64), self.max_delay_secs)
        return longest * (1 + chance) / 2


class Attempts:
    """The attempts at one request; a reader counts anew after each response."""

    def __init__(self, retry: Retry, what: str, random: Callable[[], float], *, repeatable: bool = True) -> None:
        """Count from 0. `repeatable` means that the request does no harm if it is processed twice."""
        self._retry = retry
        self._what = what
        self._random = random
        self._repeatable = repeatable
        self._failures = 0
        self._max_attempts: float = retry.max_attempts
        self.uncertain = False
        """Whether an attempt may have succeeded although no response arrived."""

    def succeeded(self, *, patient: bool = False) -> None:
        """Count anew. A `patient` reader that has had one response retries for ever."""
        self._failures = 0
        if patient:
            self._max_attempts = inf

    def delay_after(self, failure: Failure) -> float:
        """Return the delay before the next attempt, or raise the failure if there is none."""
        self._failures += 1
        certain = _certainly_nothing_happened(failure)
        self.uncertain |= not certain
        if not (may_succeed_later(failure) or self._patient_with(failure)):
            raise failure
        if not (certain or self._repeatable):
            raise AppendUncertain(
                f"{self._what}: the connection broke before the response ({_words(failure)}), so the server "
                "may have processed it or not"
            ) from failure
        if self._failures >= self._max_attempts:
            raise self._given_up(failure) from failure
        return max(self._retry.delay_secs(self._failures, self._random()), _retry_after_secs(failure))

    def _patient_with(self, failure: Failure) -> bool:
        """Return whether another server responds at the URL of a stream that was read before: that is temporary."""
        return isinstance(failure, NotAStream) and self._max_attempts == inf

    def _given_up(self, failure: Failure) -> Exception:
        if isinstance(failure, ProtocolError):
            return failure
        return Unreachable(f"{self._what}: no response in {self._failures} attempts, at last: {_words(failure)}")


def _certainly_nothing_happened(failure: Failure) -> bool:
    if isinstance(failure, ProtocolError):
        return failure.status < _SERVER_FAULT or failure.status in _NOT_NOW
    return isinstance(failure, NotConnected)


def may_succeed_later(failure: Failure) -> bool:
    """Return whether the same request, made later, may succeed."""
    if not isinstance(failure, ProtocolError):
        return isinstance(failure, ConnectionBroken)
    later = failure.status in _NOT_NOW or (failure.status > _SERVER_FAULT and failure.status not in _NEVER)
    return later and not isinstance(failure, _LASTING)


def _retry_after_secs(failure: Failure) -> float:
    if not isinstance(failure, ProtocolError) or (asked := header_of(failure, "Retry-After")) is None:
        return 0.0
    secs = float(asked) if asked.isdecimal() else _secs_until(asked, header_of(failure, "Date") or "")
    return min(max(secs, 0.0), MAX_RETRY_AFTER_SECS)


def _secs_until(then: str, now: str) -> float:
    """Return the time until a date (RFC 9110 §10.2.3) by the clock of the server, which is its `Date` header."""
    try:
        return (parsedate_to_datetime(then) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError):  # not dates, or one of them has no zone
        return 0.0


def _words(failure: Failure) -> str:
    return str(failure) or type(failure).__name__
