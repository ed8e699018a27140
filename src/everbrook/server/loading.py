"""Loading: an answer that waits until something is loaded in a thread, and is then given as any other."""

import asyncio
import logging
from collections.abc import Callable

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.server.exchange import Deferred, Exchange, Reply, Response
from everbrook.server.problem import problem_response

logger = logging.getLogger(__name__)


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
            failure = ProtocolError("the server failed to answer; its log says why")
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
