"""Slices: an answer that takes long is put together a little in each turn of the loop, so that others have theirs.

Most answers are whole in the first slice: they are given at once.
"""

import logging
from collections.abc import Callable, Generator
from time import perf_counter

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.server.exchange import Exchange, Reply, Response

logger = logging.getLogger(__name__)

TURN_SECS = 0.002

Steps = Generator[Response | None, None, None]
"""Does a little in each step, and gives the answer in the last one."""
Refuse = Callable[[ProtocolError], Response]


def answer_in_slices(engine: Engine, steps: Steps, refuse: Refuse) -> Reply:
    """Take the first slice, and give the answer or what will give it. `refuse` renders what a later step raises."""
    return _take_slice(steps) or Sliced(engine, steps, refuse)


def _take_slice(steps: Steps) -> Response | None:
    """Take steps for as long as one turn may last."""
    until = perf_counter() + TURN_SECS
    while (response := next(steps)) is None and perf_counter() < until:
        pass
    return response


class Sliced:
    """The answer from the second slice on."""

    brief = True

    def __init__(self, engine: Engine, steps: Steps, refuse: Refuse) -> None:
        self._engine = engine
        self._steps = steps
        self._refuse = refuse
        self._exchange: Exchange | None = None

    def start(self, exchange: Exchange) -> None:
        """Leave the turn to others first."""
        self._exchange = exchange
        self._engine.scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._exchange is None:
            return
        try:
            response = _take_slice(self._steps)
        except ProtocolError as error:
            response = self._refuse(error)
        except Exception:
            logger.exception("an answer could not be put together")
            response = self._refuse(ProtocolError("the server failed to answer; its log says why"))
        if response is None:
            self._engine.scheduler.call_soon(self._go_on)
        else:
            answer = response
            self._engine.when_durable(answer.rests_on, lambda failure: self._answer(answer, failure))

    def _answer(self, response: Response, failure: Unavailable | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.respond(self._refuse(failure) if failure else response)

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None
        self._steps.close()

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
