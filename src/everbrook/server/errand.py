"""Errands: answers that are put together in a thread, because they wait for a disk."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError
from everbrook.server.exchange import Exchange, Response
from everbrook.server.problem import problem_response

logger = logging.getLogger(__name__)


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
            logger.error("an answer could not be put together: %s", error)
            failure = ProtocolError("the server failed to answer; its log says why")
            exchange.respond(problem_response(failure, self._common))

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._exchange = None

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
