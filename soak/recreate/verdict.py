"""The verdict: each message of each incarnation was written once, or a log names its stream as one that lost messages.

Of an incarnation that exists, only messages that retention has removed may be missing; of a deleted one, the last
messages may be missing too. A job that left out any other message has confused two incarnations.

Two kinds of missing messages need not be named. A job that starts at the earliest message reads what exists when it
reads the stream for the first time, so messages that were cut before are no loss. And a server that was killed has
forgotten which streams were deleted before: if no position of a job has such a stream, the job can only say that there
may be some.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from everbrook.spark.streams.losses import FORGOTTEN
from soak.ledger import PromiseBroken
from soak.recreate.streams import Incarnation

Row = tuple[str, str]
"""A stream, and the key of a message."""
_TOLD = re.compile(r"messages were lost|were created and deleted before they were read|have expired")
_INCARNATION = re.compile(r"\(incarnation (\w+)\)")


@dataclass(frozen=True, slots=True)
class Judged:
    """How many rows a job has written, and how many messages are missing."""

    rows: int
    missing: int


def named_in(log: str) -> set[str]:
    """Find the incarnations that a log names, beside the names of the streams, as those that have lost messages."""
    return {found for line in log.splitlines() if _TOLD.search(line) for found in _INCARNATION.findall(line)}


def forgotten_in(log: str) -> bool:
    """Tell whether a job logged that there may be deleted streams which it can't name."""
    return FORGOTTEN in log


def judge(
    job: str,
    rows: Iterable[Row],
    streams: Sequence[Incarnation],
    named: set[str],
    *,
    ordered: bool,
    forgotten: int = 0,
) -> Judged:
    """Compare the rows of a job with the ledger.

    `forgotten` is the last run whose log says that there may be streams which it can't name: they were deleted in this
    run or before.
    """
    found: Mapping[str, list[str]] = _by_stream(rows)
    incarnations: Mapping[str, list[Incarnation]] = _by_name(streams)
    if unknown := found.keys() - incarnations.keys():
        raise PromiseBroken(f"{job}: rows of streams that were never created: {sorted(unknown)}")
    missing = 0
    for name, others in incarnations.items():
        expected = [key for one in others for key in one.keys]
        _judge_rows(f"{job}: {name}", found.get(name, []), expected, ordered=ordered)
        there = set(found.get(name, ()))
        for one in others:
            lost = _missing_of(job, one, there)
            unnamed = one.ended and one.ended_in <= forgotten and lost == len(one.keys)
            if lost and one.id not in named and not (unnamed or lost == _cut_before(one, there)):
                raise PromiseBroken(
                    f"{job}: {lost} messages of incarnation {one.number} of {name} are missing, and no log names it"
                )
            missing += lost
    return Judged(sum(map(len, found.values())), missing)


def _judge_rows(which: str, rows: Sequence[str], expected: Sequence[str], *, ordered: bool) -> None:
    places = {key: place for place, key in enumerate(expected)}
    strange = [key for key in rows if key not in places]
    if strange or len(set(rows)) != len(rows):
        twice = sorted({key for key in rows if rows.count(key) > 1})
        raise PromiseBroken(f"{which}: messages that were never sent {strange[:3]}, messages twice {twice[:3]}")
    order = [places[key] for key in rows]
    if ordered and order != sorted(order):
        raise PromiseBroken(f"{which}: the rows are out of order: {rows}")


def _missing_of(job: str, one: Incarnation, there: set[str]) -> int:
    """Count the missing messages of an incarnation. Raise if one of them may not be missing."""
    needed = one.keys[one.cut :]
    missing = [key for key in needed if key not in there]
    end = len(needed) - len(missing)
    if missing and (not one.ended or missing != needed[end:]):
        state = "is deleted" if one.ended else "exists"
        raise PromiseBroken(
            f"{job}: of incarnation {one.number} of {one.name}, which {state}, {len(missing)} of {len(needed)} "
            f"messages are missing without a reason, the first of them {missing[0]}"
        )
    return sum(key not in there for key in one.keys)


def _cut_before(one: Incarnation, there: set[str]) -> int:
    """Count the messages at the beginning that retention has removed before the job read them."""
    return next((place for place, key in enumerate(one.keys[: one.cut]) if key in there), one.cut)


def judge_fold(one: Incarnation, offset: int, keys: set[str]) -> None:
    """Compare the snapshot of a stream that exists with the ledger."""
    folded = one.keys[: one.places_before(offset)]
    if not keys <= set(folded) or not keys >= set(folded[one.cut :]):
        strange, missing = keys - set(folded), set(folded[one.cut :]) - keys
        raise PromiseBroken(
            f"fold: the snapshot of {one.name} at {offset} has {sorted(strange)[:3]} of other incarnations, and lacks "
            f"{sorted(missing)[:3]}"
        )


def _by_stream(rows: Iterable[Row]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, key in rows:
        found[name].append(key)
    return found


def _by_name(streams: Iterable[Incarnation]) -> Mapping[str, list[Incarnation]]:
    found: dict[str, list[Incarnation]] = defaultdict(list)
    for one in streams:
        found[one.name].append(one)
    return found
