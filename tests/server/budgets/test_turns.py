"""Budgets: how many streams each operation looks at in one turn of the loop, in a store of 100,000.

Slices are bounded by time, too: a slow machine does less in one turn, and no machine does more than these.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

import pytest

from everbrook.engine import Engine
from everbrook.protocol import STREAM_ROOT, Change, Create, ForkFrom, Head
from everbrook.server.application import Application
from everbrook.server.assembly import limits_of
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.tuning import RegistryTuning
from everbrook.settings import Settings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.storage import StorageMode, StorageSettings
from everbrook.storage import MemoryStorage, Record
from tests.kit.fakes import FakeClock, FakeScheduler, HandWorker

STREAMS, MORTAL = 100_000, 5_000
TEXT = b"text/plain"
CONTROL = b"/v1/stream/__ds/subscriptions"
SETTINGS = Settings(storage=StorageSettings(mode=StorageMode.MEMORY), limits=LimitSettings(max_memory_bytes=1 << 32))
SLICED = 10_000
"""Far more than any machine looks at in a slice of 2 ms, and far less than all."""


class CountingStorage(MemoryStorage):
    """A storage that counts the streams that it was asked for."""

    items = 0

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        found = super().scan(prefix, after, limit)
        self.items += len(found)
        return found

    def load(self, name: bytes) -> Record | None:
        self.items += 1
        return super().load(name)

    def apply(self, group: Sequence[Change]) -> None:
        self.items += len(group)
        super().apply(group)

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        self.items += 1
        return super().read(incarnation, start, end)


class Waiting:
    """An exchange that keeps the answer."""

    def __init__(self) -> None:
        self.answer: Response | None = None

    def respond(self, response: Response) -> None:
        self.answer = response


class Server:
    """An application whose turns are taken by hand."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.storage = CountingStorage()
        self.engine = Engine(
            self.storage,
            self.scheduler,
            self.clock,
            limits_of(SETTINGS),
            commit_executor=HandWorker(),
            blob_executor=HandWorker(),
        )
        self.most = 0
        """How many streams were looked at in one turn."""
        self.application = Application(self.engine, SETTINGS)

    def create(self, path: str, ttl_secs: int | None = None) -> None:
        engine = self.engine
        engine.execute(
            Create(
                STREAM_ROOT + path.encode(), self.clock.now(), engine.new_incarnation(), TEXT, b"x", ttl_secs=ttl_secs
            )
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Count what is looked at in one turn."""
        self.storage.items = 0
        yield
        self.most = max(self.most, self.storage.items)

    def run(self) -> None:
        """Take turns until nothing is left to do at this time."""
        ran = True
        while ran:
            with self.turn():
                ran = bool(self.scheduler.run_soon())
            with self.turn():
                ran |= bool(self.scheduler.run_timers())

    def run_for(self, secs: int) -> None:
        """Let time pass."""
        self.scheduler.settle()
        for _ in range(secs * 1000):
            self.clock.micros += 1000
            self.run()

    def ask(self, method: bytes, path: bytes, body: bytes = b"", query: bytes = b"") -> Response:
        """Ask, and take turns until the answer is there."""

        async def handle() -> Reply:
            return self.application.handle(Request(method, path, query, {}, body))

        with self.turn():
            reply = self.runner.run(handle())
        if isinstance(reply, Response):
            return reply
        exchange = Waiting()
        reply.start(exchange)  # type: ignore[arg-type]
        self.run()
        assert exchange.answer is not None
        return exchange.answer


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has loaded what subscriptions need: it is imported in a thread otherwise, which takes no turns."""
    import_module("everbrook.server.resources.subscriptions")
    with asyncio.Runner() as runner:

        async def made() -> Server:
            return Server(runner)

        server = runner.run(made())
        for number in range(STREAMS):
            server.create(f"many/{number % 100}/{number}")
        server.scheduler.settle()
        yield server


@pytest.fixture(autouse=True)
def idle(server: Server) -> None:
    """Begin to count."""
    server.scheduler.settle()
    server.most = 0


def subscribe(server: Server, name: bytes, pattern: bytes) -> int:
    body = b'{"type":"pull-wake","pattern":"%b","wake_stream":"wake"}' % pattern
    return server.ask(b"PUT", b"%b/%b" % (CONTROL, name), body).status


def test_a_page_of_a_list_looks_at_no_more_than_it_tells(server: Server) -> None:
    assert server.ask(b"GET", b"/v1/stream/__ds/streams", query=b"limit=1000").status == 200
    assert 100 < server.most <= 1002


def test_a_list_by_a_prefix_looks_at_nothing_else(server: Server) -> None:
    assert server.ask(b"GET", b"/v1/stream/__ds/streams", query=b"prefix=many/99/9999&limit=10").status == 200
    assert server.most <= 12


@pytest.mark.parametrize("pattern", [b"**", b"**/**/**/none", b"*/*/*", b"many/**/7"])
def test_a_subscription_is_created_described_and_deleted_in_slices(server: Server, pattern: bytes) -> None:
    name = pattern.replace(b"/", b"-")
    assert subscribe(server, name, pattern) == 201
    assert server.ask(b"GET", b"%b/%b" % (CONTROL, name)).status == 200
    assert server.ask(b"DELETE", b"%b/%b" % (CONTROL, name)).status == 204
    assert 0 < server.most < SLICED


def test_explicit_links_are_made_and_taken_back_in_slices(server: Server) -> None:
    assert subscribe(server, b"some", b"none") == 201
    paths = b",".join(b'"new/%d"' % number for number in range(5_000))
    assert server.ask(b"POST", b"%b/some/streams" % CONTROL, b'{"streams":[%b]}' % paths).status == 204
    assert server.ask(b"GET", b"%b/some" % CONTROL).status == 200
    assert server.ask(b"DELETE", b"%b/some/streams/new/1" % CONTROL).status == 204
    assert server.ask(b"DELETE", b"%b/some" % CONTROL).status == 204
    assert server.most < 2 * SLICED


def test_streams_expire_in_slices(server: Server) -> None:
    for number in range(MORTAL):
        server.create(f"mortal/{number}", ttl_secs=1)
    server.run_for(2)
    assert server.engine.listing.count(STREAM_ROOT + b"mortal/") == 0
    assert 0 < server.most <= server.engine.tuning.expiry.slice_streams


def test_the_registry_is_filled_in_slices(server: Server) -> None:
    assert server.ask(b"HEAD", b"/v1/stream/__registry__").status == 200
    server.run()
    assert 0 < server.most <= 2 * RegistryTuning().slice_streams


def test_a_chain_of_forks_is_bounded(server: Server) -> None:
    engine, source = server.engine, b"many/0/0"
    for number in range(64):
        fork = ForkFrom(STREAM_ROOT + source)
        source = b"chain/%d" % number
        now, incarnation = server.clock.now(), engine.new_incarnation()
        engine.execute(Create(STREAM_ROOT + source, now, incarnation, body=b"y", fork=fork))
    server.most = 0
    assert server.ask(b"GET", b"/v1/stream/" + source).body == b"x" + b"y" * 64
    assert server.most <= 65


def test_metrics_and_the_page_look_at_no_stream(server: Server) -> None:
    assert server.ask(b"GET", b"/metrics").status == 200
    assert server.ask(b"GET", b"/ui/").status == 200
    assert server.most == 0


def test_subscriptions_are_taken_up_in_slices(server: Server) -> None:
    """It comes last: what is taken up stays at work."""
    assert subscribe(server, b"all", b"**") == 201
    server.most = 0

    async def start_again() -> None:
        Application(server.engine, SETTINGS)

    server.runner.run(start_again())
    server.run()
    assert 0 < server.most <= 2 * server.engine.tuning.subscriptions.scan_slice
