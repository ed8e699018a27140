"""Losses: messages that a query should read and that no longer exist.

A stream that is gone is no loss if the query had read it to its end. The end is known if the stream was closed there,
or if the server reports it. Otherwise a stream with a time to live counts as read if the query had reached the last end
that it saw.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from everbrook.spark.streams.catalogue import Found
from everbrook.spark.streams.offsets import BEGINNING, VERSION_KEY, Position, number_of, parse_position
from everbrook.spark.streams.ranges import Range

FORGOTTEN = (
    "the server has forgotten what has changed since the last batch: streams that were created and deleted since then "
    "can't be named"
)
_MAX_SHOWN = 3


class DataLoss(Exception):
    """Messages that a query has to read no longer exist."""

    restartable = False
    advice = "{reset} lets it begin anew, fail_on_data_loss = false lets it go on without them"


def data_loss(losses: Sequence[str]) -> DataLoss:
    """Make the error that names the first few losses."""
    more = f", and {len(losses) - _MAX_SHOWN} more" if len(losses) > _MAX_SHOWN else ""
    shown_losses = "; ".join(losses[:_MAX_SHOWN])
    return DataLoss(f"messages were lost: {shown_losses}{more}. To go on without them, set failOnDataLoss to false")


def find_losses(
    start: Mapping[str, str],
    streams: Mapping[str, Found],
    ends: Mapping[str, str],
    gone: Mapping[str, Sequence[Position]],
) -> list[str]:
    """Name streams that are gone, created again, or cut before they were read. `gone` has the ends of streams."""
    return [
        f"{name!r} {loss}{shown(here.incarnation)}"
        for name, text in start.items()
        if name != VERSION_KEY
        and ends.get(name) != text
        and (loss := _loss(here := parse_position(text), streams.get(name), gone.get(name, ())))
    ]


def shown(incarnation: str) -> str:
    """Show which incarnation of a stream has lost messages, if that is known."""
    return f" (incarnation {incarnation})" if incarnation else ""


def _loss(here: Position, found: Found | None, gone: Sequence[Position]) -> str | None:
    if found is None or here.differs(found.end):
        ended = _end_of(here, gone)
        if ended is None:
            return _loss_of_unknown(here, found)
        if here.offset < ended.offset:
            return f"is gone; it was read until {here.offset}, and ended at {ended.offset}"
        return None
    if found.tail < here.offset:
        return f"ends at {found.tail}, though it was read until {here.offset}"
    if BEGINNING not in {here.offset, found.earliest} and here.offset < found.earliest:
        return f"begins at {found.earliest} now; it was read until {here.offset}"
    return None


def _end_of(here: Position, gone: Sequence[Position]) -> Position | None:
    return next((ended for ended in gone if not here.differs(ended)), None)


def _loss_of_unknown(here: Position, found: Found | None) -> str | None:
    """Describe the loss of a stream whose end is unknown."""
    if found is not None and found.created_at_ms == here.created_at_ms is not None:
        return f"was cut by a repair, or restored; it was read until {here.offset} before"
    if here.final or here.expires:
        return None
    if found is not None:
        return f"was deleted and created anew; the one before was read until {here.offset}"
    return f"is gone; it was read until {here.offset}"


def find_expired(
    start: Mapping[str, str], streams: Mapping[str, Found], gone: Mapping[str, Sequence[Position]]
) -> list[str]:
    """Name streams that are gone and count as expired: they may have got messages after their end was seen."""
    missing = (name for name in start if name != VERSION_KEY and name not in streams and name not in gone)
    found = ((name, parse_position(start[name])) for name in missing)
    return [name for name, here in found if here.expires and not here.final]


def find_unread(gone: Mapping[str, Sequence[Position]], *known: Mapping[str, str]) -> list[str]:
    """Name streams that are gone, had messages, and are in none of the known positions. Another may have the name."""
    return [
        f"{name!r}{shown(ended.incarnation)}"
        for name, ends in gone.items()
        for ended in ends
        if number_of(ended.offset) and not any(_has(positions, name, ended) for positions in known)
    ]


def ends_of(gone: Mapping[str, Sequence[Position]], start: Mapping[str, str]) -> dict[str, list[Position]]:
    """Keep the ends of streams that a query has read."""
    kept = {name: [ended for ended in ends if _has(start, name, ended)] for name, ends in gone.items()}
    return {name: ends for name, ends in kept.items() if ends}


def _has(positions: Mapping[str, str], name: str, ended: Position) -> bool:
    text = positions.get(name)
    return text is not None and not parse_position(text).differs(ended)


def adjust_ranges(
    ranges: Iterable[Range], end: Mapping[str, str], streams: Mapping[str, Found]
) -> tuple[list[Range], list[str]]:
    """Adjust the ranges of a batch to the streams as they are now, and describe what is lost of them.

    When a logged batch is planned again, its streams may have been cut, or deleted and created anew.
    """
    there: list[Range] = []
    losses: list[str] = []
    for range_ in ranges:
        found, position = streams.get(range_.name), parse_position(end[range_.name])
        if found is None:
            there.append(range_)
        elif position.differs(found.end):
            which = shown(position.incarnation)
            losses.append(f"{range_.name!r} has another incarnation; {range_.end} was to be read{which}")
        else:
            cut = not range_.fresh and range_.start != BEGINNING and range_.start < found.earliest
            start = found.earliest if range_.fresh or cut else range_.start
            if cut or start > range_.end:
                which = shown(found.incarnation)
                was = f"{range_.start} to {range_.end} was to be read"
                losses.append(f"{range_.name!r} begins at {start} now; {was}{which}")
            if start <= range_.end:
                there.append(replace(range_, start=start, incarnation=range_.incarnation or found.incarnation))
    return there, losses
