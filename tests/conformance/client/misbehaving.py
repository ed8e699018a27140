"""The control endpoint with which the suite makes a server misbehave, as a plan of a proxy before one that does not.

`POST {root}/_test/inject-error` describes a fault for the next requests of a stream, `DELETE` takes all of them back.
"""

from collections.abc import Callable

from msgspec import Struct, json

from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Delayed, Edited, Fault, NeverSent, Preceded, Reply, Sound

CONTROL = "/_test/inject-error"


class InjectedEvent(Struct, rename="camel"):
    """An event that stands before those of the server."""

    event_type: str
    data: str


class Described(Struct, rename="camel"):
    """A fault in the words of the suite."""

    path: str
    count: int
    status: int | None = None
    retry_after: int | None = None
    delay_ms: float = 0
    jitter_ms: float = 0
    drop_connection: bool = False
    truncate_body_bytes: int | None = None
    probability: float | None = None
    method: str | None = None
    corrupt_body: bool = False
    inject_sse_event: InjectedEvent | None = None

    def fits(self, request: Request) -> bool:
        path = request.target.partition("?")[0]
        return self.count > 0 and path.endswith(self.path) and self.method in {None, request.method}

    def played(self, request: Request) -> Fault:
        fault = self._fault(live="live=sse" in request.target)
        return Delayed((self.delay_ms + self.jitter_ms) / 1000, fault) if self.delay_ms else fault

    def _fault(self, *, live: bool) -> Fault:
        if self.drop_connection:
            return NeverSent()
        if self.status is not None:
            return Reply(self.status, {} if self.retry_after is None else {"Retry-After": str(self.retry_after)})
        if self.truncate_body_bytes is not None or self.corrupt_body:
            return Edited(body=self._changed())
        if self.inject_sse_event is not None and live:
            event = self.inject_sse_event
            return Preceded(f"event: {event.event_type}\ndata: {event.data}\n\n".encode())
        return Sound()

    def _changed(self) -> Callable[[bytes], bytes]:
        return lambda body: (b"X" + body[1:] if self.corrupt_body else body)[: self.truncate_body_bytes]


class Misbehaviour:
    """The faults that are to come. Of a stream there is one at a time, as at the reference server."""

    def __init__(self) -> None:
        self._described: dict[str, Described] = {}

    def __call__(self, request: Request) -> Fault:
        """Choose what becomes of a request."""
        if request.target.endswith(CONTROL):
            return self._control(request)
        for described in self._described.values():
            if described.fits(request):
                described.count -= 1
                return described.played(request)
        return Sound()

    def _control(self, request: Request) -> Fault:
        if request.method == "DELETE":
            self._described.clear()
        else:
            described = json.decode(request.body, type=Described)
            self._described[described.path] = described
        return Reply(200)
