"""A proxy between clients and a real server, in a thread with a loop of its own: it plays the faults it is given.

Each request is offered to the armed faults in their order; the first that fits handles it. Whatever the faults do, the
proxy remembers what was asked, so that a test can count.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from weakref import WeakSet

import h11

from everbrook import Retry
from tests.kit.faults.exchange import HOST, Exchange, Request, Side
from tests.kit.faults.kinds import Fault, Sound

START_SECS = 60.0
QUICKLY = Retry(max_attempts=6, first_delay_secs=0.01, max_delay_secs=0.05)
"""How a client behind a proxy tries again."""

Plan = Callable[[Request], Fault]


@dataclass
class Armed:
    """A fault that waits for requests it fits."""

    fault: Fault
    left: int
    method: str | None
    query: str

    def fits(self, request: Request) -> bool:
        return self.left > 0 and self.method in {None, request.method} and self.query in request.target


async def take_turns() -> None:
    """Let the loop do what it has begun. A time would not do: on a busy machine it may pass within one turn."""
    for _ in range(10):
        await asyncio.sleep(0)


class Proxy:
    """Passes requests on to the server at a port of this machine, for as long as the context lasts."""

    def __init__(self, server_port: int, plan: Plan | None = None) -> None:
        """Describe a proxy. A plan chooses the fault of each request that no armed fault fits."""
        self.server_port = server_port
        self.requests: list[Request] = []
        self.port = 0
        self._plan = plan or (lambda _request: Sound())
        self._armed: list[Armed] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: WeakSet[asyncio.WriteTransport] = WeakSet()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_SECS), "the proxy did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    def arm(self, fault: Fault, *, times: int = 1, method: str | None = None, query: str = "") -> None:
        """Let the next requests that fit meet a fault: those with a method, or with something in their target."""
        self._armed.append(Armed(fault, times, method, query))

    def follow_plan(self, plan: Plan) -> None:
        """Let a plan choose from now on."""
        self._plan = plan

    def disarm(self) -> None:
        """Let nothing go wrong any more, but what the plan says."""
        self._armed.clear()

    def cut_all(self) -> None:
        """Break every connection that is open now."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def asked(self, method: str, query: str = "") -> list[Request]:
        """Give the requests with a method, and with something in their target, so far."""
        return [seen for seen in self.requests if seen.method == method and query in seen.target]

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        for listener in server.sockets:
            self._loop.remove_reader(listener)
        # Whoever is just being accepted becomes a task, to be cancelled like the others. asyncio forgets the socket of
        # a connection that a closed server has yet to take over, so the server is closed afterwards.
        await take_turns()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in self._transports:
            transport.abort()
        await take_turns()  # a transport closes its socket a turn of the loop later

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._transports.add(writer.transport)
        client = Side(reader, writer, to_client=True)
        try:
            with suppress(OSError, h11.ProtocolError, asyncio.CancelledError):
                await self._converse(client)
        finally:
            self._tasks.discard(task)
            client.cut()

    async def _converse(self, client: Side) -> None:
        """Handle one request after the other, until one of the two has had enough."""
        while isinstance(head := await client.event(), h11.Request):
            headers = {name.decode(): value.decode() for name, value in head.headers}
            body = b"".join([piece async for piece in client.pieces()])
            request = Request(head.method.decode(), head.target.decode(), headers, body)
            self.requests.append(request)
            await self._handle(client, request)
            if client.machine.our_state is not h11.DONE or client.machine.their_state is not h11.DONE:
                return
            client.machine.start_next_cycle()

    async def _handle(self, client: Side, request: Request) -> None:
        """Play the fault, but no longer than the client is there."""
        exchange = Exchange(client, request, self.server_port)
        played = asyncio.ensure_future(self._choose(request).play(exchange))
        gone = asyncio.ensure_future(client.gone())
        try:
            await asyncio.wait({played, gone}, return_when=asyncio.FIRST_COMPLETED)
            if played.done():
                played.result()
        finally:
            exchange.close()
            for task in (played, gone):
                task.cancel()
            await asyncio.gather(played, gone, return_exceptions=True)

    def _choose(self, request: Request) -> Fault:
        for armed in list(self._armed):
            if armed.fits(request):
                armed.left -= 1
                return armed.fault
        return self._plan(request)
