"""Losses: what a query has to read and can't read any more. Pure.

A stream that was read to its end may go: nothing of it is missed. Its end is known if it was closed there, or if the
server tells it. Otherwise, a stream whose time ran out is taken to have ended where it did when it was seen last.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from everbrook.spark.catalogue import Found
from everbrook.spark.planning import Range
from everbrook.spark.positions import BEGINNING, VERSION_KEY, Position, parse_position

_TOLD = 3


class DataLoss(Exception):
    """Messages that a query has to read are not there any more."""


def data_loss(losses: Sequence[str]) -> DataLoss:
    """Tell of losses, of the first few by name."""
    more = f", and {len(losses) - _TOLD} more" if len(losses) > _TOLD else ""
    return DataLoss(
        f"messages were lost: {'; '.join(losses[:_TOLD])}{more}. To go on without them, set failOnDataLoss to false"
    )


def find_losses(
    start: Mapping[str, str], streams: Mapping[str, Found], ends: Mapping[str, str], gone: Mapping[str, Position]
) -> list[str]:
    """Name streams that are gone, or created anew, or cut before they were read. `gone` tells where streams ended."""
    return [
        f"{name!r} {loss}"
        for name, text in start.items()
        if name != VERSION_KEY
        and ends.get(name) != text
        and (loss := _loss(parse_position(text), streams.get(name), gone.get(name)))
    ]


def _loss(here: Position, found: Found | None, ended: Position | None) -> str | None:
    there = ended if found is None else found.end
    if there is None or here.differs(there):
        return _loss_of_unknown(here, found)
    if there.offset < here.offset and found is not None:
        return f"ends at {there.offset}, though it was read until {here.offset}"
    if here.offset < there.offset and found is None:
        return f"is gone; it was read until {here.offset}, and ended at {there.offset}"
    if found is not None and BEGINNING not in {here.offset, found.earliest} and here.offset < found.earliest:
        return f"begins at {found.earliest} now; it was read until {here.offset}"
    return None


def _loss_of_unknown(here: Position, found: Found | None) -> str | None:
    """Say what is lost of a stream of which nobody knows where it ended."""
    if found is not None and found.created_at_ms == here.created_at_ms is not None:
        return f"was cut by a repair, or restored; it was read until {here.offset} before"
    if here.final or here.expires:
        return None
    if found is not None:
        return f"was deleted and created anew; the one before was read until {here.offset}"
    return f"is gone; it was read until {here.offset}"


def find_expired(start: Mapping[str, str], streams: Mapping[str, Found], gone: Mapping[str, Position]) -> list[str]:
    """Name streams that are no loss only as they were to go by themselves: more may have come before they did."""
    missing = (name for name in start if name != VERSION_KEY and name not in streams and name not in gone)
    found = ((name, parse_position(start[name])) for name in missing)
    return [name for name, here in found if here.expires and not here.final]


def at_hand(
    ranges: Iterable[Range], end: Mapping[str, str], streams: Mapping[str, Found]
) -> tuple[list[Range], list[str]]:
    """Say of each range of a batch what is known of its stream now, and which ranges are lost.

    A batch that is planned again may be of streams that were cut, or deleted and created anew, since it was logged.
    """
    there: list[Range] = []
    losses: list[str] = []
    for range_ in ranges:
        found, position = streams.get(range_.name), parse_position(end[range_.name])
        if found is None:
            there.append(range_)
        elif position.differs(found.end):
            losses.append(f"{range_.name!r} has another incarnation; {range_.end} was to be read")
        else:
            cut = not range_.fresh and range_.start != BEGINNING and range_.start < found.earliest
            start = found.earliest if range_.fresh or cut else range_.start
            if cut or start > range_.end:
                losses.append(f"{range_.name!r} begins at {start} now; {range_.start} to {range_.end} was to be read")
            if start <= range_.end:
                there.append(replace(range_, start=start, incarnation=range_.incarnation or found.incarnation))
    return there, losses
