"""Deferred responses of several kinds: worked on in slices, in a thread, piece by piece, or when something is ready.

Long work is done in slices, a little in each turn of the event loop, so that other requests have theirs. Most responses
are complete in the first slice and are given at once.
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
"""Is given what to call when there is nothing more to wait for."""
Steps = Generator[Response | Wait | None, None, None]
"""Does a little in each step, and gives the response in the last one, or what is to be waited for before the next."""
Refuse = Callable[[ProtocolError], Response]


def settle(deferred: Deferred, engine: Engine, response: Response, refuse: Refuse) -> None:
    """Give a response when the change that it rests on is durable, or refuse it if that has failed."""
    engine.when_durable(
        response.rests_on, lambda failure: deferred.respond(refuse(failure) if failure is not None else response)
    )


def answer_in_slices(engine: Engine, name: bytes, steps: Steps, refuse: Refuse) -> Reply:
    """Take the first slice, and give the response or what will give it. `refuse` renders what a later step raises.

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


class Sliced(Deferred):
    """A response from its second slice on."""

    def __init__(self, engine: Engine, name: bytes, steps: Steps, refuse: Refuse, wait: Wait | None) -> None:
        """Take the steps that follow a slice, which has given nothing or something to wait for."""
        self._engine = engine
        self._name = name
        self._steps = steps
        self._refuse = refuse
        self._wait = wait

    def start(self, exchange: Exchange) -> None:
        """Leave the turn to others first."""
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
            if given is None:
                self._engine.turns.slice_was_long()
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
    """A response that can be found only when something is ready. From then on it is whatever `find` gives."""

    def __init__(
        self, engine: Engine, common: bytes, wait: Wait, find: Callable[[], Reply], *, brief: bool = True
    ) -> None:
        """Take what to wait for. `brief` says whether the response comes soon after that."""
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
            logger.exception("a request could not be answered")
            reply = self._refuse(ProtocolError(FAULT))
        if isinstance(reply, Response):
            settle(self, self._engine, reply, self._refuse)
            return
        self._found = reply
        reply.start(exchange)
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
        """End as the response does, now or as soon as it is found."""
        self._stopping = True
        if self._found is not None:
            self._found.shut_down()


class Threaded(Deferred):
    """A response that `work` makes in a thread, because it waits for a disk or computes for long."""

    def __init__(
        self, work: Callable[[], Response], common: bytes, faults: Faults, threads: Executor | None = None
    ) -> None:
        """Use the threads of the event loop, unless others are given."""
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
        """Skip the work, if it has not begun."""
        super().cancel()
        if self._working is not None:
            self._working.cancel()


class Streamed(Deferred):
    """A response that is sent piece by piece, each in a turn of its own, no faster than the client takes them."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.under_way = False
        """Whether a piece is being made."""

    def resume(self) -> None:
        """Send the next piece when others have had their turn: a fast client must not keep them waiting."""
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
            # The stream was deleted or cut meanwhile, or is damaged: the client must not take this for the whole.
            if not isinstance(error, (ProtocolError, OSError, KeyError)):
                logger.exception("a response could not be completed")
            self.abort()
        else:
            self.send(piece)

    def next_piece(self) -> bytes:
        """Make the next piece of the body."""
        raise NotImplementedError

    def send(self, piece: bytes) -> None:
        """Send a piece, and `resume` or end the response."""
        raise NotImplementedError
