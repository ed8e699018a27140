"""Dead letters of folds: messages that are no changes, put aside before the snapshot that leaves them out.

Each is an append of its own. The producer is the folded stream, the epoch is the offset from which it is folded, and
the position is the place of the message: a fold that is done again, or further, writes none of them twice. If
the stream of the letters has as many producers as the server allows, further letters are written without one, and a
fold that is done again may write them twice.
"""

import hashlib

from msgspec import Struct

from everbrook.protocol.errors import PayloadTooLarge, TooManyProducers
from everbrook.spark.appending import BatchTooLarge, Producer, QuerySuperseded
from everbrook.spark.connection import Connection
from everbrook.spark.dead_letters import Letter, append_letters, cut_to_fit
from everbrook.spark.folds.options import FoldOptions
from everbrook.spark.folds.plans import Plan
from everbrook.spark.folds.reports import Overtaken, Refused
from everbrook.spark.positions import BEGINNING

MAX_LETTERS, MAX_BYTES = 10_000, 64 * 1024 * 1024
"""A stream with more of them is refused: probably it is not a stream of changes."""


class Skipped(Struct, frozen=True):
    """A message that is no change, with its offset and the reason."""

    offset: str
    reason: str
    payload: bytes


class Letters:
    """The dead letters of one fold."""

    def __init__(self) -> None:
        self._skipped: list[Skipped] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._skipped)

    def add(self, skipped: Skipped) -> None:
        """Put a message aside."""
        self._skipped.append(skipped)
        self._bytes += len(skipped.payload)
        if len(self._skipped) > MAX_LETTERS or self._bytes > MAX_BYTES:
            raise Refused(
                f"more than {len(self._skipped) - 1:,} of its messages are no changes, the last of them at "
                f"{skipped.offset}: {skipped.reason}"
            )

    def append(self, connection: Connection, options: FoldOptions, plan: Plan, start: str) -> None:
        """Append the letters of a fold that continued from `start`."""
        stream = options.dead_letters
        if stream is None or not self._skipped:
            return
        letters = [
            Letter({"stream": plan.stream, "offset": each.offset}, each.reason, each.payload) for each in self._skipped
        ]
        try:
            append_letters(connection, options.server, stream, producer_of(plan, start), letters)
        except TooManyProducers:
            there = connection.stream(stream)
            for letter in letters:
                cut_to_fit([letter], lambda messages: there.append(messages[0]))
        except QuerySuperseded as error:
            raise Overtaken(f"another fold has continued it: {error}") from error
        except (BatchTooLarge, PayloadTooLarge) as error:
            raise Refused(f"its dead letters can't be written: {error}") from error


def producer_of(plan: Plan, start: str) -> Producer:
    """Give the producer of the dead letters of a fold. Each incarnation of a stream has another one."""
    name = hashlib.sha256(plan.stream.encode()).hexdigest()[:32]
    incarnation = plan.incarnation or plan.created_at_ms or 0
    return Producer(f"fold-{name}-{incarnation}", 0 if start == BEGINNING else int(start))
