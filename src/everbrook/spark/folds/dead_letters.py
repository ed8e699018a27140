"""Dead letters of folds: messages that are no changes, put aside before the snapshot that leaves them out.

Each is an append of its own. The producer is the folded stream, the epoch is the offset from which it is folded, and
the number is that of the letter behind it: a fold that is done again, or further, writes none of them twice. If
the stream of the letters has as many producers as the server allows, further letters are written without one, and a
fold that is done again may write them twice.
"""

import hashlib

from msgspec import Struct

from everbrook.protocol.errors import PayloadTooLarge, TooManyProducers
from everbrook.spark import dead_letters
from everbrook.spark.appending import BatchTooLarge, Producer, QuerySuperseded
from everbrook.spark.connection import Connection
from everbrook.spark.folds.options import FoldOptions
from everbrook.spark.folds.plans import Plan
from everbrook.spark.folds.reports import Overtaken, Refused
from everbrook.spark.positions import BEGINNING

MAX_LETTERS, MAX_BYTES = 10_000, 64 * 1024 * 1024
"""A stream with more of them than this is hardly one of changes."""


class Letter(Struct, frozen=True):
    """A message that is no change, where it is, and why."""

    offset: str
    reason: str
    payload: bytes


class Letters:
    """The dead letters of one fold."""

    def __init__(self) -> None:
        self._letters: list[Letter] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: Letter) -> None:
        """Put a message aside."""
        self._letters.append(letter)
        self._bytes += len(letter.payload)
        if len(self._letters) > MAX_LETTERS or self._bytes > MAX_BYTES:
            raise Refused(
                f"more than {len(self._letters) - 1:,} of its messages are no changes, the last of them at "
                f"{letter.offset}: {letter.reason}"
            )

    def append(self, connection: Connection, options: FoldOptions, plan: Plan, start: str) -> None:
        """Append those of a fold that went on from `start` to their stream."""
        stream = options.dead_letters
        if stream is None or not self._letters:
            return
        letters = [
            dead_letters.Letter({"stream": plan.stream, "offset": letter.offset}, letter.reason, letter.payload)
            for letter in self._letters
        ]
        try:
            dead_letters.append_letters(connection, options.server, stream, producer_of(plan, start), letters)
        except TooManyProducers:
            there = connection.stream(stream)
            for letter in letters:
                dead_letters.cut_to_fit([letter], lambda messages: there.append(messages[0]))
        except QuerySuperseded as error:
            raise Overtaken(f"somebody else folds it further: {error}") from error
        except (BatchTooLarge, PayloadTooLarge) as error:
            raise Refused(f"its dead letters can't be written: {error}") from error


def producer_of(plan: Plan, start: str) -> Producer:
    """Name who writes the dead letters of a fold. A stream that was created anew is another."""
    name = hashlib.sha256(plan.stream.encode()).hexdigest()[:32]
    return Producer(
        f"fold-{name}-{plan.incarnation or plan.created_at_ms or 0}", 0 if start == BEGINNING else int(start)
    )
