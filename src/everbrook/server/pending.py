"""Pending responses: those that take several turns of the event loop, or wait for a thread.

Long work is done in slices, a little in each turn of the loop, so that other requests have theirs. Most responses are
complete in the first slice and are given at once.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from time import perf_counter

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.server.exchange import Deferred, Exchange, Reply, Response, problem_response

TURN_SECS = 0.002

Wait = Callable[[Callable[[], None]], object]
"""Is given what to call when there is nothing more to wait for."""
Steps = Generator[Response | Wait | None, None, None]
"""Does a little in each step, and gives the answer in the last one, or what is to be waited for before the next."""
Refuse = Callable[[ProtocolError], Response]


logger = logging.getLogger(__name__)


def answer_in_slices(engine: Engine, name: bytes, steps: Steps, refuse: Refuse) -> Reply:
    """Take the first slice, and give the answer or what will give it. `refuse` renders what a later step raises.

    It is work for the bucket that `name` is in. While others wait for their turn, even the first slice waits: otherwise
    those who ask at the same time would all take one in the same turn.
    """
    given = None if engine.turns.waiting else _take_slice(steps)
    return given if isinstance(given, Response) else Sliced(engine, name, steps, refuse, given)


def _take_slice(steps: Steps) -> Response | Wait | None:
    """Take steps for as long as one turn may last, or until one gives something."""
    until = perf_counter() + TURN_SECS
    while (given := next(steps)) is None and perf_counter() < until:
        pass
    return given


class Sliced:
    """The answer from the second slice on."""

    brief = True

    def __init__(self, engine: Engine, name: bytes, steps: Steps, refuse: Refuse, wait: Wait | None) -> None:
        """Take the steps that follow a slice, which has given nothing or something to wait for."""
        self._engine = engine
        self._name = name
        self._steps = steps
        self._refuse = refuse
        self._wait = wait
        self._exchange: Exchange | None = None

    def start(self, exchange: Exchange) -> None:
        """Leave the turn to others first."""
        self._exchange = exchange
        self._leave_turn(self._wait)

    def _leave_turn(self, wait: Wait | None) -> None:
        if wait is None:
            self._engine.turns.wait(self._name, self._go_on, self._fail)
        else:
            wait(lambda: self._leave_turn(None))

    def _go_on(self) -> None:
        if self._exchange is None:
            return
        try:
            given = _take_slice(self._steps)
            if given is None:
                self._engine.turns.slice_was_long()
        except ProtocolError as error:
            given = self._refuse(error)
        if isinstance(given, Response):
            response = given
            self._engine.when_durable(response.rests_on, lambda failure: self._answer(response, failure))
        else:
            self._leave_turn(given)

    def _fail(self) -> None:
        self._answer(self._refuse(ProtocolError("the server failed to respond; its log has the reason")), None)

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


class Errand:
    """An answer that `work` gives, in a thread of `worker`."""

    brief = True

    def __init__(self, worker: Executor, common: bytes, work: Callable[[], Response], faults: Faults) -> None:
        self._worker = worker
        self._common = common
        self._work = work
        self._faults = faults
        self._exchange: Exchange | None = None

    def start(self, exchange: Exchange) -> None:
        """Begin to work."""
        self._exchange = exchange
        working = asyncio.get_running_loop().run_in_executor(self._worker, self._work)
        working.add_done_callback(self._faults.guarded(Callback.RESPONSE, self._take, exchange.abort))

    def _take(self, working: "asyncio.Future[Response]") -> None:
        exchange, self._exchange = self._exchange, None
        error = working.exception()
        if exchange is None:
            return
        if error is None:
            exchange.respond(working.result())
        elif isinstance(error, ProtocolError):
            exchange.respond(problem_response(error, self._common))
        else:
            logger.error("a response could not be built: %s", error)
            failure = ProtocolError("the server failed to respond; its log has the reason")
            exchange.respond(problem_response(failure, self._common))

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None

    def shut_down(self) -> None:
        """The answer comes soon by itself."""


class Loading:
    """The answer that `handle` gives when `loaded` is done."""

    brief = True

    def __init__(
        self, engine: Engine, common: bytes, loaded: "asyncio.Future[object]", handle: Callable[[], Reply]
    ) -> None:
        self._engine = engine
        self._common = common
        self._loaded = loaded
        self._handle = handle
        self._exchange: Exchange | None = None
        self._deferred: Deferred | None = None

    def start(self, exchange: Exchange) -> None:
        """Wait."""
        self._exchange = exchange
        self._loaded.add_done_callback(self._go_on)

    def _go_on(self, loaded: "asyncio.Future[object]") -> None:
        if self._exchange is None:
            return
        try:
            loaded.result()
            reply = self._handle()
        except Exception:
            logger.exception("a request could not be answered")
            failure = ProtocolError("the server failed to respond; its log has the reason")
            reply = problem_response(failure, self._common)
        if isinstance(reply, Response):
            response = reply
            self._engine.when_durable(response.rests_on, lambda failure: self._answer(response, failure))
        else:
            self._deferred = reply
            reply.start(self._exchange)

    def _answer(self, response: Response, failure: Unavailable | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.respond(problem_response(failure, self._common) if failure else response)

    def resume(self) -> None:
        """Go on after congestion."""
        if self._deferred:
            self._deferred.resume()

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None
        if self._deferred:
            self._deferred.cancel()

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
