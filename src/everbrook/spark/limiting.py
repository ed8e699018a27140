"""Limits: how far each stream is read in a micro-batch, so that all together are not more than was allowed.

Streams share by how much they have, as Kafka's source does it. Where there are so many that each would get next to
nothing, some of them come in turn. Messages are never cut: where they end is asked of the server, in few questions, and
of all streams at once.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from msgspec.structs import replace

from everbrook.spark.options import Limits
from everbrook.spark.planning import Range
from everbrook.spark.positions import number_of, offset_of

Question = tuple[str, str, int]
"""A stream, an offset in it, and a number of messages: which offset, or else the tail, lies so far behind that?"""
Skip = Callable[[Sequence[Question]], list[str]]
"""Answers questions."""
Search = Generator[Question, str, Range | None]
"""Asks one question after the other, and gives the beginning of a range, or nothing of it."""

ROWS_QUANTUM = 100
BYTES_QUANTUM = 16 * 1024
_CLOSE_ENOUGH = 0.75
_FIRST_GUESS_ROWS = 64
_MAX_QUESTIONS = 40
_CLEVER_QUESTIONS = 4
"""After so many guesses by size the rest is halved: one large message would be approached a row at a time."""


def limit(ranges: Sequence[Range], limits: Limits, skip: Skip, turn: int) -> dict[str, str]:
    """Give the offset up to which each stream is read. Those that have to wait for the next batch are not in it."""
    if limits.max_rows is not None:
        ranges = _limit_rows(ranges, limits.max_rows, skip, turn)
    if limits.max_bytes is not None:
        ranges = _limit_bytes(ranges, limits.max_bytes, skip, turn)
    return {range_.name: range_.end for range_ in ranges}


def shares(sizes: Mapping[str, int], total: int, quantum: int, turn: int) -> dict[str, int]:
    """Part `total` among streams by their sizes: to all of them, or to some in turn, so that each gets a quantum."""
    names = _in_turn(sorted(sizes), max(1, total // quantum), turn)
    whole = sum(sizes[name] for name in names)
    parts = {name: total * sizes[name] // whole for name in names}
    left = total - sum(parts.values())
    for name in names[:left]:  # rounding leaves less than one for each
        parts[name] += 1
    return {name: part for name, part in parts.items() if part}


def _in_turn(names: list[str], count: int, turn: int) -> list[str]:
    if count >= len(names):
        return names
    first = turn * count % len(names)
    return (names[first:] + names[:first])[:count]


def _limit_rows(ranges: Sequence[Range], max_rows: int, skip: Skip, turn: int) -> list[Range]:
    sizes = {range_.name: _size(range_) for range_ in ranges}
    # A message takes a byte at least: so many bytes are not more messages.
    if sum(sizes.values()) <= max_rows:
        return list(ranges)
    allowed = shares(sizes, max_rows, ROWS_QUANTUM, turn)
    return _found((first_rows(range_, allowed[range_.name]) for range_ in ranges if range_.name in allowed), skip)


def first_rows(range_: Range, rows: int) -> Search:
    """Find the beginning of a range that has so many rows."""
    if _size(range_) <= rows:
        return range_
    end = yield range_.name, range_.start, rows
    return replace(range_, end=min(end, range_.end))


def _limit_bytes(ranges: Sequence[Range], max_bytes: int, skip: Skip, turn: int) -> list[Range]:
    sizes = {range_.name: _size(range_) for range_ in ranges}
    if sum(sizes.values()) <= max_bytes:
        return list(ranges)
    allowed = shares(sizes, max_bytes, BYTES_QUANTUM, turn)
    chosen = [range_ for range_ in ranges if range_.name in allowed]
    # A message larger than all that is allowed comes alone: it has to be read some day.
    return _found((first_bytes(range_, allowed[range_.name]) for range_ in chosen), skip) or _found(
        [first_rows(chosen[0], 1)], skip
    )


def _found(searches: Iterable[Search], skip: Skip) -> list[Range]:
    return [range_ for range_ in together(searches, skip) if range_ is not None]


def together(searches: Iterable[Search], skip: Skip) -> list[Range | None]:
    """Let searches go on side by side: the next question of each is asked with those of all others."""
    begun = list(searches)
    found: list[Range | None] = [None] * len(begun)
    answers: dict[int, str | None] = dict.fromkeys(range(len(begun)))
    while answers:
        questions: dict[int, Question] = {}
        for place, answer in answers.items():
            try:
                questions[place] = next(begun[place]) if answer is None else begun[place].send(answer)
            except StopIteration as end:
                found[place] = end.value
        answers = dict(zip(questions, skip(list(questions.values())) if questions else (), strict=True))
    return found


def first_bytes(range_: Range, max_bytes: int) -> Search:
    """Find the beginning of a range that has about so many bytes, and not more. None if the first message has more."""
    size = _size(range_)
    if size <= max_bytes:
        return range_
    start = number_of(range_.start) or 0
    few_rows, few_bytes = 0, 0
    many_rows: int | None = None
    many_bytes = size
    for question in range(_MAX_QUESTIONS):
        if many_rows is not None and question > _CLEVER_QUESTIONS:
            rows = (few_rows + many_rows) // 2
        else:
            rows = _guess(few_rows, few_bytes, many_rows, many_bytes, max_bytes)
        if rows <= few_rows:
            break
        found = (number_of((yield range_.name, range_.start, rows)) or 0) - start
        if found > max_bytes:
            many_rows, many_bytes = rows, found
        else:
            few_rows, few_bytes = rows, found
            if found >= _CLOSE_ENOUGH * max_bytes:
                break
    return replace(range_, end=offset_of(start + few_bytes)) if few_rows else None


def _guess(few_rows: int, few_bytes: int, many_rows: int | None, many_bytes: int, wanted_bytes: int) -> int:
    """Guess how many messages have so many bytes, between a number that has fewer and one that has more."""
    if many_rows is None:
        return few_rows * wanted_bytes // few_bytes + 1 if few_bytes else _FIRST_GUESS_ROWS
    if many_rows - few_rows <= 1:
        return few_rows
    by_size = few_rows + (many_rows - few_rows) * (wanted_bytes - few_bytes) // (many_bytes - few_bytes)
    return min(max(by_size, few_rows + 1), many_rows - 1)


def split(range_: Range, count: int, skip: Skip) -> list[Range]:
    """Part a range into about as many pieces of the same size, where messages end."""
    pieces: list[Range] = []
    rest = range_
    for left in range(count, 1, -1):
        (piece,) = together([first_bytes(rest, _size(rest) // left)], skip)
        if piece is None or piece.end >= rest.end:
            continue
        pieces.append(piece)
        rest = Range(range_.name, piece.end, range_.end)
    return [*pieces, rest]


def split_all(ranges: Sequence[Range], count: int, skip: Skip) -> list[list[Range]]:
    """Part ranges into at least about as many tasks, in the order of the streams and their messages."""
    whole = sum(_size(range_) for range_ in ranges) or 1
    return [[piece] for range_ in ranges for piece in split(range_, max(1, round(count * _size(range_) / whole)), skip)]


def _size(range_: Range) -> int:
    size = range_.size_bytes
    if size is None:
        raise ValueError(f"the offsets of {range_.name!r} are not of Everbrook, so limits can't be kept")
    return max(size, 1)
