"""The deletion of a bucket in which many streams have run out of time: they expire first, a slice at a time.

Each slice becomes durable before the next one begins, so that other changes have their turn between them.
"""

from collections.abc import Callable

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.server.exchange import Exchange, Response
from everbrook.server.problem import problem_response
from everbrook.server.render import no_content


class Deletion:
    """The answer to the request that deletes the bucket."""

    brief = True

    def __init__(
        self, engine: Engine, common: bytes, bucket_id: bytes, after: bytes, delete: Callable[[bytes], int]
    ) -> None:
        """Go on `after` a name of the bucket. `delete` ends the bucket, and gives the change that this rests on."""
        self._engine = engine
        self._common = common
        self._bucket_id = bucket_id
        self._after = after
        self._delete = delete
        self._exchange: Exchange | None = None

    def start(self, exchange: Exchange) -> None:
        """Wait for the first slice."""
        self._exchange = exchange
        self._engine.when_durable(self._engine.last_change, self._go_on_guarded)

    def _go_on_guarded(self, failure: Unavailable | None) -> None:
        exchange = self._exchange
        if exchange and self._engine.faults.run(Callback.RESPONSE, self._go_on, failure):
            exchange.abort()

    def _go_on(self, failure: Unavailable | None) -> None:
        try:
            if failure:
                raise failure
            after = self._engine.buckets.expire_some(self._bucket_id, self._after)
            rests_on = self._engine.last_change if after else self._delete(self._bucket_id)
        except ProtocolError as error:
            refusal = problem_response(error, self._common)
            self._engine.when_durable(self._engine.last_change, lambda lost: self._answer(refusal, lost))
            return
        if after:
            self._after = after
            self._engine.when_durable(rests_on, self._go_on_guarded)
        else:
            self._engine.when_durable(rests_on, lambda lost: self._answer(no_content(self._common), lost))

    def _answer(self, response: Response, lost: Unavailable | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.respond(problem_response(lost, self._common) if lost else response)

    def resume(self) -> None:
        """A whole response is never congested on its own account."""

    def cancel(self) -> None:
        """Nobody waits for the answer any more. What has expired stays expired."""
        self._exchange = None

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
