"""The verdict: each message of each incarnation is there once, or its stream was named as one that has lost messages.

Of an incarnation that is there, only what retention has removed may be missing; of one that is gone, the end may be
missing too. Anything else that is missing was passed over because of another incarnation.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from soak.ledger import PromiseBroken
from soak.recreate.changing import Incarnation

Row = tuple[str, str]
"""A stream, and the key of a message."""
_TOLD = re.compile(r"messages were lost|came and went unread|their time ran out")
_NAME = re.compile(r"'(in/[^']+)'")


@dataclass(frozen=True, slots=True)
class Judged:
    """What a job has written."""

    rows: int
    missing: int


def named_in(log: str) -> set[str]:
    """Find the streams that a log names as those that have lost messages."""
    return {name for line in log.splitlines() if _TOLD.search(line) for name in _NAME.findall(line)}


def judge(
    job: str,
    rows: Iterable[Row],
    streams: Sequence[Incarnation],
    named: set[str],
    *,
    ordered: bool,
    forgotten: bool = False,
) -> Judged:
    """Hold the rows of a job against the ledger.

    A stream that was created again before anybody looked need not be named, nor what was cut before. `forgotten` says
    that a server which was killed may have forgotten other streams that came and went unread.
    """
    found: Mapping[str, list[str]] = _by_stream(rows)
    incarnations: Mapping[str, list[Incarnation]] = _by_name(streams)
    if unknown := found.keys() - incarnations.keys():
        raise PromiseBroken(f"{job}: rows of streams that never were: {sorted(unknown)}")
    missing = 0
    for name, others in incarnations.items():
        expected = [key for one in others for key in one.keys]
        _judge_rows(f"{job}: {name}", found.get(name, []), expected, ordered=ordered)
        there = set(found.get(name, ()))
        for one in others:
            lost = _missing_of(job, one, there)
            replaced = forgotten or one is not others[-1]
            unseen = one.ended and replaced and lost == len(one.keys)
            if lost and name not in named and not (unseen or lost == _cut_before(one, there)):
                raise PromiseBroken(f"{job}: {lost} messages of {name} are missing, and nothing names it")
            missing += lost
    return Judged(sum(map(len, found.values())), missing)


def _judge_rows(which: str, rows: Sequence[str], expected: Sequence[str], *, ordered: bool) -> None:
    places = {key: place for place, key in enumerate(expected)}
    strange = [key for key in rows if key not in places]
    if strange or len(set(rows)) != len(rows):
        twice = sorted({key for key in rows if rows.count(key) > 1})
        raise PromiseBroken(f"{which}: messages of nobody {strange[:3]}, messages twice {twice[:3]}")
    order = [places[key] for key in rows]
    if ordered and order != sorted(order):
        raise PromiseBroken(f"{which}: the order was lost: {rows}")


def _missing_of(job: str, one: Incarnation, there: set[str]) -> int:
    """Count what is missing of an incarnation, or raise if it may not be missing."""
    needed = one.keys[one.cut :]
    missing = [key for key in needed if key not in there]
    end = len(needed) - len(missing)
    if missing and (not one.ended or missing != needed[end:]):
        state = "is gone" if one.ended else "is there"
        raise PromiseBroken(
            f"{job}: of incarnation {one.number} of {one.name}, which {state}, {len(missing)} of {len(needed)} "
            f"messages are missing that have to be there, the first of them {missing[0]}"
        )
    return sum(key not in there for key in one.keys)


def _cut_before(one: Incarnation, there: set[str]) -> int:
    """Count the messages at its beginning that retention has removed, and nobody has read."""
    return next((place for place, key in enumerate(one.keys[: one.cut]) if key in there), one.cut)


def judge_fold(one: Incarnation, offset: int, keys: set[str]) -> None:
    """Hold the snapshot of a stream that is there against the ledger."""
    folded = one.keys[: one.places_before(offset)]
    if not keys <= set(folded) or not keys >= set(folded[one.cut :]):
        strange, missing = keys - set(folded), set(folded[one.cut :]) - keys
        raise PromiseBroken(
            f"fold: the snapshot of {one.name} at {offset} has {sorted(strange)[:3]} of other streams, and is without "
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
