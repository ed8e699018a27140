"""Pull-wake workers against a real server: everything is handled at least once, whoever dies (§7.2, §7.3)."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from everbrook.client.errors import Unreachable
from everbrook.client.retry import Retry
from everbrook.client.workers import AsyncWorker, Batch, Worker, WorkerTuning
from everbrook.protocol.errors import ProtocolError, StreamClosed, StreamNotFound, SubscriptionNotFound
from tests.client.pulling import PATIENCE_SECS, Pulled, eventually
from tests.kit.server_process import ServerProcess, serving

Subscribe = Callable[..., Pulled]

QUICK = WorkerTuning(pauses=Retry(first_delay_secs=0.01, max_delay_secs=0.1))

HANGING_WORKER = """
import sys, time
from everbrook.client.workers import Worker
def hang(batch):
    print(batch.data.decode(), flush=True)
    time.sleep(60)
Worker(*sys.argv[1:], hang, name="hanging").run()
"""


def root_url(server: ServerProcess) -> str:
    return f"http://{server.address[0]}:{server.address[1]}/v1/stream"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), DS_SERVER__LONG_POLL_TIMEOUT_SECS="5") as server:
        yield root_url(server)


@pytest.fixture
def subscribe(url: str) -> Iterator[Subscribe]:
    """Make subscriptions."""
    with ExitStack() as stack:

        def make(root_url: str = url, **options: int) -> Pulled:
            pulled = Pulled(root_url, **options)
            stack.callback(pulled.close)
            return pulled

        yield make


@pytest.fixture
def pulled(subscribe: Subscribe) -> Pulled:
    return subscribe()


class Notes:
    """A handler that notes what it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    @property
    def messages(self) -> list[Any]:
        return [message for batch in self.batches for message in batch.messages]

    async def handle(self, batch: Batch) -> None:
        self.batches.append(batch)

    def __call__(self, batch: Batch) -> None:
        self.batches.append(batch)


@asynccontextmanager
async def working(worker: AsyncWorker) -> AsyncIterator[asyncio.Task[None]]:
    """Let a worker run, and stop it at the end."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        worker.stop()
        await asyncio.wait_for(asyncio.wait((task,)), PATIENCE_SECS)


@contextmanager
def working_thread(worker: Worker) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(PATIENCE_SECS)


async def until(claim: Callable[[], object]) -> None:
    """Let the loop run until a claim is true."""
    assert await asyncio.to_thread(eventually, claim)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 2 * PATIENCE_SECS))


def test_what_is_appended_is_handled_in_order_and_acked(pulled: Pulled) -> None:
    notes = Notes()

    async def main() -> None:
        async with working(AsyncWorker(*pulled.place, notes.handle)):
            path = pulled.create("a")
            for number in range(20):
                pulled.append("a", b"%d" % number)
            await until(lambda: len(notes.messages) == 20)
            await until(lambda: pulled.acked()[path] == notes.batches[-1].next_offset)

    run(main())
    assert notes.messages == list(range(20))


def test_a_plain_function_is_a_handler_too(pulled: Pulled) -> None:
    notes = Notes()
    with working_thread(Worker(*pulled.place, notes)) as thread:
        path = pulled.create("a")
        for number in range(5):
            pulled.append("a", b"%d" % number)
        assert eventually(lambda: notes.messages == [0, 1, 2, 3, 4])
        assert eventually(lambda: pulled.acked()[path] == notes.batches[-1].next_offset)
    assert not thread.is_alive()


def test_news_from_before_the_worker_are_handled(pulled: Pulled) -> None:
    for name in ("a", "b/100%", "c d"):
        pulled.create(name.replace("%", "%25"))
        pulled.append(name.replace("%", "%25"), b'"news"')
    notes = Notes()
    with working_thread(Worker(*pulled.place, notes)):
        assert eventually(lambda: len(notes.batches) == 3)
    assert {batch.stream for batch in notes.batches} == {f"{pulled.folder}/{name}" for name in ("a", "b/100%", "c d")}


def test_streams_of_a_bucket_are_worked_on_as_well(url: str, subscribe: Subscribe) -> None:
    bucket_url = url.replace("/v1/stream", "/ds/pool")
    httpx2.put(bucket_url).raise_for_status()
    pulled, notes = subscribe(bucket_url), Notes()
    pulled.folder = "flat"
    config = {"type": "pull-wake", "streams": ["news"], "wake_stream": pulled.wake_stream}
    httpx2.put(f"{bucket_url}/__ds/subscriptions/flat", json=config).raise_for_status()
    with working_thread(Worker(bucket_url, "flat", pulled.wake_stream, notes)):
        pulled.send("PUT", "news", b"1", "application/json")
        assert eventually(lambda: notes.messages == [1])


def test_a_batch_of_bytes_says_where_it_is_from(pulled: Pulled) -> None:
    path = pulled.create("a", "text/plain")
    pulled.append("a", b"hello", "text/plain")
    notes = Notes()
    with working_thread(Worker(*pulled.place, notes)):
        assert eventually(lambda: notes.batches)
    assert notes.batches == [Batch(path, "text/plain", b"hello", "-1", f"{5:016d}")]


def test_two_workers_share_the_work_and_nothing_is_handled_twice(pulled: Pulled) -> None:
    first, second = Notes(), Notes()

    async def main() -> None:
        workers = [AsyncWorker(*pulled.place, notes.handle) for notes in (first, second)]
        async with working(workers[0]), working(workers[1]):
            for name in "abcd":
                pulled.create(name)
            for number in range(40):
                pulled.append("abcd"[number % 4], b"%d" % number)
                await asyncio.sleep(0)
            await until(lambda: len(first.messages) + len(second.messages) >= 40)

    run(main())
    assert sorted(first.messages + second.messages) == list(range(40))


def test_the_work_of_a_killed_worker_goes_to_another_when_its_lease_is_over(subscribe: Subscribe) -> None:
    """§7.3: when a lease expires and work is pending, another wake follows."""
    pulled, notes = subscribe(lease_ttl_ms=1000), Notes()
    pulled.create("a")
    command = [sys.executable, "-c", HANGING_WORKER, *pulled.place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hanging:
        assert hanging.stdout is not None
        pulled.append("a", b'"news"')
        assert hanging.stdout.readline() == '["news"]\n'
        with working_thread(Worker(*pulled.place, notes)):
            assert pulled.claim()["error"]["current_holder"] == "hanging"
            hanging.kill()
            assert eventually(lambda: notes.messages == ["news"])


def test_a_handler_may_take_longer_than_its_lease(subscribe: Subscribe) -> None:
    """§7.2: the ack endpoint doubles as heartbeat."""
    pulled, calls, other = subscribe(lease_ttl_ms=1000), Notes(), Notes()
    slept = threading.Event()

    async def slow(batch: Batch) -> None:
        await calls.handle(batch)
        await asyncio.sleep(2)
        slept.set()

    async def main() -> None:
        path = pulled.create("a")
        pulled.append("a", b"1")
        async with working(AsyncWorker(*pulled.place, slow)):
            await until(lambda: calls.batches)
            async with working(AsyncWorker(*pulled.place, other.handle)):
                await until(slept.is_set)
                await until(lambda: pulled.acked()[path] == calls.batches[0].next_offset)

    run(main())
    assert (len(calls.batches), other.batches) == (1, [])


def test_what_a_handler_fails_on_is_tried_again_and_what_it_did_is_not(pulled: Pulled) -> None:
    pulled.create("a")
    pulled.create("b")
    pulled.append("a", b"1")
    pulled.append("b", b"2")
    handled: list[Batch] = []

    def fail_twice(batch: Batch) -> None:
        handled.append(batch)
        if 2 <= len(handled) <= 3:
            raise ValueError("not yet")

    with working_thread(Worker(*pulled.place, fail_twice, tuning=QUICK)):
        assert eventually(lambda: len(handled) == 4)
    first, *others = [batch.stream for batch in handled]
    assert {*others} == {f"{pulled.folder}/a", f"{pulled.folder}/b"} - {first}


def test_a_failure_releases_the_work_to_other_workers_at_once(pulled: Pulled) -> None:
    pulled.create("a")
    failed = threading.Event()

    def fail(_batch: Batch) -> None:
        failed.set()
        raise ValueError("never")

    with working_thread(Worker(*pulled.place, fail)):
        pulled.append("a", b"1")
        assert failed.wait(PATIENCE_SECS)
        assert eventually(lambda: "token" in pulled.claim())


def test_a_worker_that_is_stopped_acks_what_it_handled_and_leaves_the_rest(pulled: Pulled) -> None:
    for name in "ab":
        pulled.create(name)
        pulled.append(name, b"1")
    notes = Notes()

    def stop(batch: Batch) -> None:
        notes(batch)
        worker.stop()

    worker = Worker(*pulled.place, stop)
    worker.run()
    (handled,) = notes.batches
    (left,) = pulled.claim()["streams"]
    assert {handled.stream, left["path"]} == {f"{pulled.folder}/a", f"{pulled.folder}/b"}


def test_a_worker_that_is_cancelled_releases_its_lease(pulled: Pulled) -> None:
    pulled.create("a")
    pulled.append("a", b"1")

    async def main() -> None:
        called = asyncio.Event()

        async def hang(_batch: Batch) -> None:
            called.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(AsyncWorker(*pulled.place, hang).run())
        await called.wait()
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()

    run(main())
    assert pulled.claim()["streams"][0]["acked_offset"] == "-1"


def test_a_stream_that_is_deleted_under_a_worker_holds_nothing_up(pulled: Pulled) -> None:
    pulled.create("a")
    pulled.create("b")
    notes = Notes()

    def delete(batch: Batch) -> None:
        notes(batch)
        if batch.stream.endswith("a"):
            pulled.send("DELETE", batch.stream)

    with working_thread(Worker(*pulled.place, delete)):
        pulled.append("a", b"1")
        assert eventually(lambda: notes.messages == [1])
        pulled.append("b", b"2")
        assert eventually(lambda: notes.messages == [1, 2])


def test_what_was_cut_from_a_stream_meanwhile_is_passed_over(pulled: Pulled) -> None:
    path = pulled.create("a", "text/plain")
    pulled.append("a", b"gone", "text/plain")
    pulled.append("a", b"kept", "text/plain")
    pulled.send("PUT", f"{path}/__ds/snapshot/{4:016d}", b"state", "text/plain")
    pulled.send("PUT", f"{path}/__ds/retention/{4:016d}")
    notes = Notes()
    with working_thread(Worker(*pulled.place, notes)):
        assert eventually(lambda: notes.batches)
    assert [(batch.offset, batch.data) for batch in notes.batches] == [(f"{4:016d}", b"kept")]


def test_only_new_wakes_of_its_own_subscription_are_claimed(pulled: Pulled) -> None:
    requests: list[str] = []
    notes, path = Notes(), pulled.create("a")

    async def note(request: httpx2.Request) -> None:
        requests.append(request.url.path.rpartition("/")[2])

    def was_asked(times: int) -> bool:
        return requests.count(pulled.wake_stream) == times

    async def main() -> None:
        client = httpx2.AsyncClient(event_hooks={"request": [note]})
        async with client, working(AsyncWorker(*pulled.place, notes.handle, client=client)):
            for polled in (2, 3, 4):  # the first request to the wake stream asks for its tail
                await until(partial(was_asked, polled))
                pulled.send("POST", pulled.wake_stream, b'{"subscription_id": "another"}', "application/json")
            assert requests.count("claim") == 1
            pulled.append("a", b"1")
            await until(lambda: pulled.acked()[path] != "-1")

    pulled.send("POST", pulled.wake_stream, b'{"subscription_id": "%b"}' % pulled.id.encode(), "application/json")
    run(main())
    assert requests.count("claim") == 2


@pytest.mark.parametrize("garbage", [b'"text"', b"1", b'{"subscription_id": 7}'])
def test_what_others_write_to_the_wake_stream_does_no_harm(pulled: Pulled, garbage: bytes) -> None:
    notes = Notes()
    with working_thread(Worker(*pulled.place, notes)):
        pulled.send("POST", pulled.wake_stream, garbage, "application/json")
        pulled.create("a")
        pulled.append("a", b"1")
        assert eventually(lambda: notes.messages == [1])


def test_a_handler_is_cancelled_when_the_server_cannot_be_told_that_it_goes_on(subscribe: Subscribe) -> None:
    """Its lease may be another worker's soon, which does the work anew."""
    pulled = subscribe(lease_ttl_ms=1000)
    ends: list[str] = []
    pulled.create("a")
    pulled.append("a", b"1")

    async def unreachable(request: httpx2.Request) -> None:
        if request.url.path.endswith("/ack") and not ends:
            raise httpx2.ConnectError("the cable is out")

    async def hang_once(_batch: Batch) -> None:
        try:
            await asyncio.sleep(0 if ends else 60)
            ends.append("handled")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def main() -> None:
        client = httpx2.AsyncClient(event_hooks={"request": [unreachable]})
        async with client, working(AsyncWorker(*pulled.place, hang_once, client=client, tuning=QUICK)):
            await until(lambda: len(ends) == 2)

    run(main())
    assert ends == ["cancelled", "handled"]


def test_a_worker_outlives_its_server(tmp_path: Path, subscribe: Subscribe) -> None:
    notes, settings = Notes(), {"DS_STORAGE__MODE": "acid", "DS_STORAGE__DATA_DIR": "data"}
    with serving(tmp_path, **settings) as server:
        pulled = subscribe(root_url(server), lease_ttl_ms=1000)
        port = str(server.address[1])
        with working_thread(Worker(*pulled.place, notes, tuning=QUICK)):
            pulled.create("a")
            pulled.append("a", b"1")
            assert eventually(lambda: notes.messages == [1])
            server.process.kill()
            server.process.wait()
            with serving(tmp_path, "--port", port, **settings):
                pulled.append("a", b"2")
                assert eventually(lambda: 2 in notes.messages)


def test_headers_of_the_user_go_with_every_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        root_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        worker = Worker(root_url, "sub", "wake", Notes(), headers={"Authorization": "Bearer service"})
        with working_thread(worker):
            connection, _ = listening.accept()
            with connection:
                assert b"\r\nauthorization: bearer service\r\n" in connection.recv(65536).lower()


def test_a_subscription_that_is_not_there_is_raised(pulled: Pulled) -> None:
    pulled.unsubscribe()
    with pytest.raises(SubscriptionNotFound):
        Worker(*pulled.place, Notes()).run()


def test_a_wake_stream_that_is_not_there_is_raised(pulled: Pulled) -> None:
    with pytest.raises(StreamNotFound):
        Worker(pulled.root_url, pulled.id, "missing", Notes()).run()


def test_a_wake_stream_that_is_closed_is_raised(pulled: Pulled) -> None:
    pulled.send("POST", pulled.wake_stream, stream_closed="true")
    with pytest.raises(StreamClosed, match=pulled.wake_stream):
        Worker(*pulled.place, Notes()).run()


@pytest.mark.parametrize("error", [SubscriptionNotFound("mine"), Unreachable("mine"), ProtocolError("mine")])
def test_what_a_handler_raises_is_never_taken_for_the_servers_word(pulled: Pulled, error: Exception) -> None:
    pulled.create("a")
    pulled.append("a", b"1")
    calls: list[Batch] = []

    def fail_once(batch: Batch) -> None:
        calls.append(batch)
        if len(calls) == 1:
            raise error

    with working_thread(Worker(*pulled.place, fail_once, tuning=QUICK)):
        assert eventually(lambda: len(calls) == 2)


def test_a_subscription_that_is_deleted_ends_its_worker_and_its_handler(subscribe: Subscribe) -> None:
    pulled = subscribe(lease_ttl_ms=1000)
    ended: list[str] = []
    pulled.create("a")
    pulled.append("a", b"1")

    async def delete(_batch: Batch) -> None:
        pulled.unsubscribe()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(SubscriptionNotFound):
        run(AsyncWorker(*pulled.place, delete).run())
    assert ended == ["cancelled"]
