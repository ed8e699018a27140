"""The options of a fold: which streams are folded, when each is due, and what happens to folded messages.

Whether a stream is due follows from its entry in the list of streams and from the policy alone, so each rule can be
tested by itself.
"""

import os
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from everbrook.durations import parse_duration_ms
from everbrook.spark.options import (
    GivenOptions,
    InvalidOption,
    Selection,
    ServerOptions,
    Spelling,
    one_of,
    parse_count,
    selection_of,
    server_of,
)
from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import number_of

MAX_STREAMS = 10_000
MIN_RATIO_BYTES = 64 * 1024


class Policy(Struct, frozen=True):
    """When a stream is folded: whenever there are new messages, unless it has a rule. One of two rules is enough."""

    when_log_is: float | None = None
    """The ratio of the log to the snapshot at which the stream is due."""
    every_ms: int | None = None
    min_log_bytes: int | None = None


class FoldOptions(Struct, frozen=True):
    """What is folded, when, and how it is published."""

    server: ServerOptions
    selection: Selection
    policy: Policy = Policy()
    max_streams: int = MAX_STREAMS
    max_partitions: int = 2
    keep_history: bool = True
    skip_invalid: bool = False
    dead_letters: str | None = None
    function: str | None = None


def parse_folds(options: Mapping[str, str], spelling: Spelling | None = None) -> FoldOptions:
    """Parse the options of a fold."""
    given = GivenOptions(options, of="fold", spelling=spelling)
    policy = Policy(
        given.optional("whenLogIs", parse_ratio),
        given.optional("every", parse_duration_ms),
        given.optional("minLogBytes", parse_count),
    )
    parsed = FoldOptions(
        server_of(given),
        Selection(),
        policy,
        max_streams=given.parsed("maxStreamsPerTrigger", parse_count, MAX_STREAMS),
        max_partitions=given.parsed("maxPartitions", parse_count, max(2, os.cpu_count() or 1)),
        keep_history=given.parsed("history", one_of("keep", "drop"), "keep") == "keep",
        skip_invalid=given.parsed("invalid", one_of("refuse", "skip"), "refuse") == "skip",
        dead_letters=given.text("deadLetters"),
        function=given.optional("function", parse_function),
    )
    return _checked(parsed, selection_of(given), given)


def _checked(parsed: FoldOptions, selection: Selection, given: GivenOptions) -> FoldOptions:
    letters = given.spelled("deadLetters")
    if parsed.function is not None and (parsed.skip_invalid or parsed.dead_letters is not None):
        raise InvalidOption(f"invalid and {letters} are for changes: a function decides itself what it accepts")
    if parsed.dead_letters is not None and not parsed.skip_invalid:
        raise InvalidOption(f"{letters} is for messages that are left out: set invalid to skip too")
    if parsed.skip_invalid and not parsed.keep_history and parsed.dead_letters is None:
        raise InvalidOption(
            "with invalid=skip and history=drop messages that are no changes would be lost: name a stream for them "
            f"with {letters}"
        )
    if parsed.dead_letters is not None and parsed.dead_letters in selection:
        raise InvalidOption(f"{letters} is {parsed.dead_letters!r}, which is one of the streams that are folded")
    return replace(parsed, selection=selection)


def parse_ratio(text: str) -> float:
    """Parse a ratio."""
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if 0 < ratio < float("inf"):
        return ratio
    raise ValueError("must be a number above 0")


def parse_function(text: str) -> str:
    """Read the name of a function."""
    module, _, name = text.partition(":")
    if all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return text
    raise ValueError("must name a module and a function in it, such as my_module:fold")


def start_of(found: Found) -> str:
    """Return the offset where a fold of a stream continues: that of its snapshot, or its beginning."""
    return found.snapshot or found.earliest


def log_bytes_of(found: Found) -> int:
    """Return how many bytes of a stream no snapshot covers."""
    return (number_of(found.tail) or 0) - (number_of(start_of(found)) or 0)


def is_due(found: Found, policy: Policy, now_ms: int) -> bool:
    """Return whether a stream is to be folded now."""
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
    """Return whether the last fold, or without one the creation, is long enough ago."""
    return policy.every_ms is not None and now_ms - _last_ms(found) >= policy.every_ms


def _last_ms(found: Found) -> int:
    return (found.created_at_ms if found.snapshot is None else found.snapshot_at_ms) or 0


def longest_waiting(due: Mapping[str, Found], count: int) -> dict[str, Found]:
    """Choose the streams whose last fold is longest ago, so that none waits for ever if there are always too many."""
    if len(due) <= count:
        return dict(due)
    return dict(sorted(due.items(), key=lambda each: (_last_ms(each[1]), each[0]))[:count])


class Refusal(Struct, frozen=True):
    """A stream as it was when its fold was refused. To fold it unchanged would be refused again."""

    found: Found

    def stands(self, now: Found) -> bool:
        """Return whether nothing has changed since that may let the fold succeed.

        A log that has doubled is tried again, so that all attempts together read about as much as one.
        """
        then = self.found
        same = (then.snapshot, then.earliest) == (now.snapshot, now.earliest) and not then.end.differs(now.end)
        return same and log_bytes_of(now) < 2 * log_bytes_of(then)
