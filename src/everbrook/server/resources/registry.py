"""Delays a read of the registry until the registry is complete."""

from collections.abc import Callable

from everbrook.engine.registry import Registry
from everbrook.protocol.errors import ProtocolError
from everbrook.server.exchange import Deferred, Exchange, Reply, Response, problem_response


class RegistryRead:
    """Waits until the registry is complete, and then delegates to the pending response of the read."""

    def __init__(self, registry: Registry, read: Callable[[], Reply], common: bytes, *, brief: bool) -> None:
        """`read` makes the response; `brief` tells whether that response is sent without waiting."""
        self.brief = brief
        self._registry = registry
        self._read = read
        self._common = common
        self._exchange: Exchange | None = None
        self._answer: Deferred | None = None
        self._stopping = False

    def start(self, exchange: Exchange) -> None:
        """Wait."""
        self._exchange = exchange
        self._registry.wait(self._begin)

    def _begin(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        try:
            reply = self._read()
        except ProtocolError as error:
            reply = problem_response(error, self._common)
        if isinstance(reply, Response):
            self._exchange = None
            exchange.respond(reply)
            return
        self._answer = reply
        reply.start(exchange)
        if self._stopping:
            reply.shut_down()

    def resume(self) -> None:
        """Continue after congestion."""
        if self._answer is not None:
            self._answer.resume()

    def cancel(self) -> None:
        """Stop waiting."""
        self._exchange = None
        if self._answer is not None:
            self._answer.cancel()

    def shut_down(self) -> None:
        """Delegate to the read. Before that do nothing, because the registry is complete soon."""
        self._stopping = True
        if self._answer is not None:
            self._answer.shut_down()
