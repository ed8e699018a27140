"""Moves: which streams changed, in the order of their last change, for those who ask again and again.

Nothing is noted before somebody has asked for the first time. What moved in an earlier run of the server, or too long
ago, is not known any more: then whoever asks has to begin anew.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from everbrook.engine.tuning import MovesTuning
from everbrook.protocol.errors import InvalidQuery, TokenGone, quoted

_TOKEN = re.compile(r"([0-9a-f]{1,16})-([0-9]{1,16})")


class Ended(Struct, frozen=True, gc=False):
    """A stream that is gone: which one it was, and where it ended."""

    incarnation: int
    tail: int


class Moves:
    """The streams that moved lately."""

    def __init__(self, run: int, tuning: MovesTuning) -> None:
        """Begin anew. `run` is a random number of 64 bits that tells this run of the server from others."""
        self._run = run
        self._max_moves = tuning.max_moves
        self._max_name_bytes = tuning.max_name_bytes
        self._name_bytes = 0
        self._min_log = tuning.min_log
        self._numbers: dict[bytes, int] = {}
        self._log: list[tuple[int, bytes]] = []
        self._last = 0
        self._forgotten = 0
        self.noting = False
        self.ended: dict[bytes, Ended] = {}
        """Those among them that are gone."""

    @property
    def moved_streams(self) -> int:
        """How many streams are remembered as moved."""
        return len(self._numbers)

    @property
    def log_length(self) -> int:
        """How many entries the log has, those of streams included that have moved again since."""
        return len(self._log)

    def token(self) -> str:
        """Give what to ask with for what moves from now on."""
        self.noting = True
        return self._token_of(self._last)

    def _token_of(self, number: int) -> str:
        return f"{self._run:x}-{number}"

    def note(self, name: bytes, ended: Ended | None = None) -> None:
        """Note that a stream moved, or that it ended."""
        if ended:
            self.ended[name] = ended
        elif self.ended:
            self.ended.pop(name, None)
        if self._numbers.pop(name, None) is None:
            self._name_bytes += len(name)
        self._last += 1
        self._numbers[name] = self._last
        self._log.append((self._last, name))
        while len(self._numbers) > self._max_moves or self._name_bytes > self._max_name_bytes:
            oldest = next(iter(self._numbers))
            self._forgotten = self._numbers.pop(oldest)
            self._name_bytes -= len(oldest)
            self.ended.pop(oldest, None)
        if len(self._log) > 2 * len(self._numbers) + self._min_log:
            # Most of it is past: the streams have moved again since.
            self._log = [(number, name) for name, number in self._numbers.items()]

    def since(
        self, token: bytes, prefix: bytes, limit: int, visible: Callable[[bytes], bool] | None = None
    ) -> list[tuple[bytes, str]]:
        """Give streams that moved since a token was given, each with the token that says so, in order.

        Only those are given of which `visible` says that whoever asks may know.
        """
        start = bisect_right(self._log, self._parse(token), key=lambda entry: entry[0])
        entries = (self._log[place] for place in range(start, len(self._log)))
        moved = (
            (name, self._token_of(number))
            for number, name in entries
            if self._numbers.get(name) == number and name.startswith(prefix) and (not visible or visible(name))
        )
        return list(islice(moved, limit))

    def _parse(self, token: bytes) -> int:
        match = _TOKEN.fullmatch(token.decode("ascii", "replace"))
        if match is None:
            raise InvalidQuery(f"changed_since must be the token of an earlier listing, got {quoted(token)}")
        number = int(match[2])
        if int(match[1], 16) != self._run or number < self._forgotten or number > self._last:
            raise TokenGone("what moved since is not known any more; list everything again")
        return number
