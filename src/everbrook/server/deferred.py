"""Deferred responses: computed in slices, in a thread, piece by piece, or when something is ready.

Long work runs in slices, one in a turn of the event loop, so that other requests are handled between them. Most
responses are complete after the first slice and are sent at once.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from time import perf_counter

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError
from everbrook.server.exchange import FAULT, Deferred, Exchange, Reply, Response, problem_response

logger = logging.getLogger(__name__)

TURN_SECS = 0.002

Wait = Callable[[Callable[[], None]], object]
"""A function that gets a callback, and calls it when the wait is over."""
Steps = Generator[Response | Wait | None, None, None]
"""A computation in small steps. It yields None between steps, a `Wait` before the next one, or at last the response."""
Refuse = Callable[[ProtocolError], Response]


def settle(deferred: Deferred, engine: Engine, response: Response, refuse: Refuse) -> None:
    """Send a response when the change that it rests on is durable, or a refusal if that change has failed."""
    engine.when_durable(
        response.rests_on, lambda failure: deferred.respond(refuse(failure) if failure is not None else response)
    )


def answer_in_slices(engine: Engine, name: bytes, steps: Steps, refuse: Refuse) -> Reply:
    """Run the first slice. Return the response, or a deferred one. `refuse` renders what a later step raises.

    The turns are shared out by bucket, and `name` says which one this work is for. While others wait for their turn,
    even the first slice waits: otherwise the first slices of many requests would add up to one long turn.
    """
    given = None if engine.turns.waiting else _take_slice(steps)
    return given if isinstance(given, Response) else Sliced(engine, name, steps, refuse, given)


def _take_slice(steps: Steps) -> Response | Wait | None:
    """Run steps until one yields a value, or until the time of one turn is over."""
    until = perf_counter() + TURN_SECS
    while (given := next(steps)) is None and perf_counter() < until:
        pass
    return given


class Sliced(Deferred):
    """A response that is computed in further slices."""

    def __init__(self, engine: Engine, name: bytes, steps: Steps, refuse: Refuse, wait: Wait | None) -> None:
        """`wait` is what the first slice yielded to wait for, None if it yielded nothing."""
        self._engine = engine
        self._name = name
        self._steps = steps
        self._refuse = refuse
        self._wait = wait

    def start(self, exchange: Exchange) -> None:
        """Wait for a turn: this one is used up."""
        self.exchange = exchange
        self._leave_turn(self._wait)

    def _leave_turn(self, wait: Wait | None) -> None:
        if wait is None:
            self._engine.turns.wait(self._name, self._continue, self._fail)
        else:
            wait(lambda: self._leave_turn(None))

    def _continue(self) -> None:
        if self.exchange is None:
            return
        try:
            given = _take_slice(self._steps)
        except ProtocolError as error:
            given = self._refuse(error)
        if isinstance(given, Response):
            settle(self, self._engine, given, self._refuse)
        else:
            self._leave_turn(given)

    def _fail(self) -> None:
        self.respond(self._refuse(ProtocolError(FAULT)))

    def cancel(self) -> None:
        super().cancel()
        self._steps.close()


class Awaited(Deferred):
    """A response that can be made only when something is ready. Then `find` returns the response."""

    def __init__(
        self, engine: Engine, common: bytes, wait: Wait, find: Callable[[], Reply], *, brief: bool = True
    ) -> None:
        """`wait` calls back when `find` can be called. `brief` says whether the response comes soon after that."""
        self.brief = brief
        self._engine = engine
        self._common = common
        self._wait = wait
        self._find = find
        self._found: Deferred | None = None
        self._stopping = False

    def start(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._wait(self._continue)

    def _continue(self) -> None:
        exchange = self.exchange
        if exchange is None:
            return
        try:
            reply = self._find()
        except ProtocolError as error:
            reply = self._refuse(error)
        except Exception:
            logger.exception("a request could not be handled")
            reply = self._refuse(ProtocolError(FAULT))
        if isinstance(reply, Response):
            settle(self, self._engine, reply, self._refuse)
            return
        self._found = reply
        reply.start(exchange)
        # The shutdown came before there was a response that could end.
        if self._stopping:
            reply.shut_down()

    def _refuse(self, error: ProtocolError) -> Response:
        return problem_response(error, self._common)

    def resume(self) -> None:
        if self._found is not None:
            self._found.resume()

    def cancel(self) -> None:
        super().cancel()
        if self._found is not None:
            self._found.cancel()

    def shut_down(self) -> None:
        """Shut the found response down, now or as soon as there is one."""
        self._stopping = True
        if self._found is not None:
            self._found.shut_down()


class Threaded(Deferred):
    """A response that `work` makes in a thread, because it waits for the disk or computes for long."""

    def __init__(
        self, work: Callable[[], Response], common: bytes, faults: Faults, threads: Executor | None = None
    ) -> None:
        """By default the threads are those of the event loop."""
        self._work = work
        self._common = common
        self._faults = faults
        self._threads = threads
        self._working: asyncio.Future[Response] | None = None

    def start(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._working = asyncio.get_running_loop().run_in_executor(self._threads, self._work)
        self._working.add_done_callback(self._faults.guarded(Callback.RESPONSE, self._take, exchange.abort))

    def _take(self, working: "asyncio.Future[Response]") -> None:
        if self.exchange is None:
            return
        error = working.exception()
        if error is None:
            self.respond(working.result())
        elif isinstance(error, ProtocolError):
            self.respond(problem_response(error, self._common))
        else:
            logger.error("a response could not be made: %s", error)
            self.respond(problem_response(ProtocolError(FAULT), self._common))

    def cancel(self) -> None:
        """Cancel the work if it has not begun. A thread that has begun runs to its end, and its result is dropped."""
        super().cancel()
        if self._working is not None:
            self._working.cancel()


class Streamed(Deferred):
    """A response that is sent piece by piece, one piece per turn, and no faster than the client reads."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.under_way = False
        """Whether a piece is being made."""

    def resume(self) -> None:
        """Send the next piece in the next turn. A fast client would otherwise hold up all others."""
        if self.exchange is not None and not self.under_way and not self.exchange.congested:
            self.under_way = True
            self._faults.soon(Callback.RESPONSE, self._continue, failed=self.abort)

    def _continue(self) -> None:
        self.under_way = False
        if self.exchange is None:
            return
        try:
            piece = self.next_piece()
        except Exception as error:
            # The stream was deleted or cut meanwhile, or is damaged. The head is sent already, so an abort is the only
            # way to show the client that the response is incomplete.
            if not isinstance(error, (ProtocolError, OSError, KeyError)):
                logger.exception("a response could not be completed")
            self.abort()
        else:
            self.send(piece)

    def next_piece(self) -> bytes:
        """Return the next piece of the body."""
        raise NotImplementedError

    def send(self, piece: bytes) -> None:
        """Send a piece. Then call `resume`, or end the response."""
        raise NotImplementedError
