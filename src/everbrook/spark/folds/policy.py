"""Which streams are due, by what a list of streams tells of them: pure, so that each rule can be tried by itself."""

from collections.abc import Mapping

from msgspec import Struct

from everbrook.spark.catalogue import Found
from everbrook.spark.folds.options import MIN_RATIO_BYTES, Policy
from everbrook.spark.positions import number_of


def start_of(found: Found) -> str:
    """Give where a fold of a stream goes on: at its snapshot, or at its beginning."""
    return found.snapshot or found.earliest


def log_bytes_of(found: Found) -> int:
    """Give how much of a stream no snapshot stands for."""
    return (number_of(found.tail) or 0) - (number_of(start_of(found)) or 0)


def is_due(found: Found, policy: Policy, now_ms: int) -> bool:
    """Tell whether a stream is to be folded now."""
    log_bytes = log_bytes_of(found)
    if log_bytes < (policy.min_log_bytes or 1):
        return False
    if policy.when_log_is is None and policy.every_ms is None:
        return True
    return _outgrown(found, policy, log_bytes) or _aged(found, policy, now_ms)


def _outgrown(found: Found, policy: Policy, log_bytes: int) -> bool:
    if policy.when_log_is is None or log_bytes < (policy.min_log_bytes or MIN_RATIO_BYTES):
        return False
    return found.snapshot is None or log_bytes >= policy.when_log_is * found.snapshot_bytes


def _aged(found: Found, policy: Policy, now_ms: int) -> bool:
    """Tell whether the last fold, or without one the creation, is as long ago as was said."""
    return policy.every_ms is not None and now_ms - _last_ms(found) >= policy.every_ms


def _last_ms(found: Found) -> int:
    return (found.created_at_ms if found.snapshot is None else found.snapshot_at_ms) or 0


def longest_waiting(due: Mapping[str, Found], count: int) -> dict[str, Found]:
    """Choose those whose last fold is longest ago, so that none waits for ever where there are always too many."""
    if len(due) <= count:
        return dict(due)
    return dict(sorted(due.items(), key=lambda each: (_last_ms(each[1]), each[0]))[:count])


class Refusal(Struct, frozen=True):
    """A stream as it was when its fold came to nothing. The same again would be for nothing too."""

    found: Found

    def stands(self, now: Found) -> bool:
        """Tell whether nothing has happened since that may have put it right.

        A log that has doubled is tried again, so that all attempts together read about as much as one.
        """
        then = self.found
        same = (then.snapshot, then.earliest) == (now.snapshot, now.earliest) and not then.end.differs(now.end)
        return same and log_bytes_of(now) < 2 * log_bytes_of(then)
