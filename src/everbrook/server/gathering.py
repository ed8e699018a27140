"""Gathering: a page of streams that is put together a few at a time, so that nobody else waits for all of them.

Where heads have to be read from the disk, a whole page may take longer than a live reader should wait.
"""

from collections.abc import Callable, Sequence
from time import perf_counter

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.state import Head
from everbrook.server.auth.visible import Span
from everbrook.server.exchange import Exchange, Response
from everbrook.server.problem import problem_response

SLICE = 16
TURN_SECS = 0.002

Found = list[tuple[bytes, Head | None]]


class Gathering:
    """An answer that lists streams whose names are in `spans`, which are in order, and follow `after`."""

    brief = True

    def __init__(
        self,
        engine: Engine,
        common: bytes,
        spans: Sequence[Span],
        after: bytes,
        limit: int,
        render: Callable[[Found], Response],
    ) -> None:
        self._engine = engine
        self._common = common
        self._spans = list(reversed(spans))
        self._after = after
        self._limit = limit
        self._render = render
        self._found: Found = []
        self._exchange: Exchange | None = None

    def start(self, exchange: Exchange) -> None:
        """Begin to gather."""
        self._exchange = exchange
        self._gather()

    def _gather(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        until = perf_counter() + TURN_SECS
        try:
            while not (whole := self._take_slice()) and perf_counter() < until:
                pass
        except ProtocolError as error:
            exchange.respond(problem_response(error, self._common))
            return
        if whole:
            exchange.respond(self._render(self._found))
        else:
            self._engine.scheduler.call_soon(self._gather)

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
            return self._engine.list_some(span.start, self._after, wanted)
        if self._after >= span.start:
            return [], None
        # Of all names that begin with it, it is the first.
        found, _ = self._engine.list_some(span.start, b"", 1)
        return [(name, head) for name, head in found if name == span.start], None

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
