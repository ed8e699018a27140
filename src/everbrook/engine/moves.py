"""Moves: which streams changed, in the order of their last change, for those who ask again and again.

Nothing is noted before somebody has asked for the first time. What moved in an earlier run of the server, or too long
ago, is not known any more: then whoever asks has to begin anew.
"""

import re

from everbrook.protocol.errors import InvalidQuery, TokenGone, quoted

MAX_MOVES = 200_000

_TOKEN = re.compile(r"([0-9a-f]{1,16})-([0-9]{1,16})")


class Moves:
    """The streams that moved lately."""

    def __init__(self, run: int) -> None:
        """Begin anew. `run` tells this run of the server from others."""
        self._run = run
        self._numbers: dict[bytes, int] = {}
        self._last = 0
        self._forgotten = 0
        self.noting = False

    def token(self) -> str:
        """Give what to ask with for what moves from now on."""
        self.noting = True
        return self._token_of(self._last)

    def _token_of(self, number: int) -> str:
        return f"{self._run:x}-{number}"

    def note(self, name: bytes) -> None:
        """Note that a stream moved."""
        self._numbers.pop(name, None)
        self._last += 1
        self._numbers[name] = self._last
        if len(self._numbers) > MAX_MOVES:
            oldest = next(iter(self._numbers))
            self._forgotten = self._numbers.pop(oldest)

    def since(self, token: bytes, prefix: bytes) -> list[tuple[bytes, str]]:
        """Give the streams that moved since a token was given, each with the token that says so, in order."""
        number = self._parse(token)
        moved: list[tuple[bytes, str]] = []
        for name in reversed(self._numbers):
            if self._numbers[name] <= number:
                break
            if name.startswith(prefix):
                moved.append((name, self._token_of(self._numbers[name])))
        moved.reverse()
        return moved

    def _parse(self, token: bytes) -> int:
        match = _TOKEN.fullmatch(token.decode("ascii", "replace"))
        if match is None:
            raise InvalidQuery(f"changed_since must be the token of an earlier listing, got {quoted(token)}")
        number = int(match[2])
        if int(match[1], 16) != self._run or number < self._forgotten or number > self._last:
            raise TokenGone("what moved since is not known any more; list everything again")
        return number
