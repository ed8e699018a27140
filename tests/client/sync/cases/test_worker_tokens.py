# Written by tools/mirror.py from tests/client/async_/cases/test_worker_tokens.py: change that file, not this one.
"""Workers that a client made: they ask with its token, and for a new one when the server takes the old one no more."""

from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import Condition, spawn
from everbrook.client.workers import Batch, Worker
from tests.client.pulling import PATIENCE_SECS
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, Reply, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer


class Guard:
    """Lets requests through that have the token of the hour, or that of a lease."""

    def __init__(self) -> None:
        self.token = "morning"  # noqa: S105 - not a secret
        self.refused = 0

    def __call__(self, request: Request) -> Fault:
        leased = request.target.endswith(("/ack", "/release"))
        if leased or request.headers.get("authorization") == f"Bearer {self.token}":
            return Sound()
        self.refused += 1
        return Reply(401, {"WWW-Authenticate": "Bearer"}, b"this token is not valid")


class Handled:
    """Counts the batches that it is given."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = Condition()

    def handle(self, _batch: Batch) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def until(self, number: int) -> bool:
        with self._changed:
            return self._changed.wait_until(lambda: self.count >= number, PATIENCE_SECS)


def test_a_worker_goes_on_with_a_new_token(client: Client, writer: Writer, proxy: Proxy) -> None:
    guard, handled = Guard(), Handled()
    proxy.follow_plan(guard)
    stream = client.stream(f"{writer.name}-jobs")
    client.stream(f"{writer.name}-wakes").create()
    with Client(proxy.origin, token=lambda: guard.token) as guarded:
        subscription = guarded.subscription(writer.name)
        subscription.create(pattern=f"{writer.name}-jobs", wake_stream=f"{writer.name}-wakes")
        worker: Worker = subscription.worker(handled.handle)
        working = spawn(worker.run, name="worker")
        stream.create(data=1)
        assert handled.until(1)
        guard.token = "noon"  # noqa: S105 - not a secret
        stream.append(2)
        assert handled.until(2)
        worker.stop()
        working.join()
    assert guard.refused >= 1
