"""Gathering: a page of streams that is put together a few at a time, so that nobody else waits for all of them.

Where heads have to be read from the disk, a whole page may take longer than a live reader should wait.
"""

from collections.abc import Callable, Sequence

from everbrook.engine.engine import Engine
from everbrook.protocol.state import Head
from everbrook.server.auth.visible import Span
from everbrook.server.exchange import Response
from everbrook.server.slices import Steps

SLICE = 16

Found = list[tuple[bytes, Head | None]]


class Gathering:
    """A page of streams whose names are in `spans`, which are in order, and follow `after`."""

    def __init__(
        self,
        engine: Engine,
        spans: Sequence[Span],
        after: bytes,
        limit: int,
        render: Callable[[Found], Response],
    ) -> None:
        self._engine = engine
        self._spans = list(reversed(spans))
        self._after = after
        self._limit = limit
        self._render = render
        self._found: Found = []

    def steps(self) -> Steps:
        """Take some more in each step, and answer at the end."""
        while not self._take_slice():
            yield None
        yield self._render(self._found)

    def _take_slice(self) -> bool:
        """Take some more. Tells whether that was all that there is, or all that is wanted."""
        wanted = min(SLICE, self._limit - len(self._found))
        found, go_on_after = self._take_from(self._spans[-1], wanted)
        self._found += found
        if len(self._found) == self._limit:
            return True
        if go_on_after is None:
            self._spans.pop()
            return not self._spans
        self._after = go_on_after
        return False

    def _take_from(self, span: Span, wanted: int) -> tuple[Found, bytes | None]:
        if not span.exact:
            return self._engine.listing.scan(span.start, self._after, wanted)
        if self._after >= span.start:
            return [], None
        # Of all names that begin with it, it is the first.
        found, _ = self._engine.listing.scan(span.start, b"", 1)
        return [(name, head) for name, head in found if name == span.start], None
