"""Memory limits: 413 before anything is stored."""

from pathlib import Path

from everbrook.server.assembly import open_storage
from everbrook.settings import StorageMode
from tests.kit.server_thread import RunningServer, configured, eventually
from tests.kit.servers import Connect, Start


def used_bytes(server: RunningServer) -> int:
    return server.call(server.engine.inspect).memory_bytes


def test_a_full_stream_refuses_an_append(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_stream_bytes=10))
    wire.create(path)
    assert wire.append(path, b"a" * 6).status == 204
    assert wire.append(path, b"b" * 5).refusal == (413, "stream_full")
    assert wire.append(path, b"c" * 4).status == 204
    assert wire.get(path).body == b"aaaaaacccc"


def test_a_refused_append_leaves_nothing_of_its_producer(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_stream_bytes=10))
    wire.create(path)
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    assert wire.append(path, b"b" * 11, **claim).status == 413
    assert wire.append(path, b"b", **claim).status == 200


def test_a_refused_append_does_not_close(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_stream_bytes=10))
    wire.create(path)
    assert wire.append(path, b"b" * 11, stream_closed="true").status == 413
    assert wire.append(path, b"b").status == 204


def test_a_stream_does_not_begin_too_large(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_stream_bytes=10))
    answer = wire.request("PUT", path, b"a" * 11, content_type="text/plain")
    assert answer.refusal == (413, "stream_full")
    assert wire.request("HEAD", path).status == 404


def test_what_a_fork_inherits_does_not_fill_it(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_stream_bytes=10))
    wire.create(path, body=b"a" * 10)
    wire.create(f"{path}/fork", stream_forked_from=path)
    assert wire.append(f"{path}/fork", b"b" * 10).status == 204
    assert wire.append(f"{path}/fork", b"c").refusal == (413, "stream_full")


def test_full_memory_refuses_an_append_to_any_stream(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_memory_bytes=100_000)
    wire = connect(server)
    wire.create(path, body=b"a" * 50_000)
    wire.create(f"{path}/other")
    assert wire.append(f"{path}/other", b"a" * 50_000).refusal == (413, "memory_full")
    assert used_bytes(server) <= 100_000
    assert wire.append(f"{path}/other", b"a" * 10_000).status == 204


def test_a_bucket_fills_a_half_of_the_memory(start: Start, connect: Connect) -> None:
    wire = connect(start(limits__max_memory_bytes=100_000))
    for bucket in ("/ds/greedy", "/ds/modest"):
        wire.request("PUT", bucket)
        wire.create(f"{bucket}/a", body=b"a" * 30_000)
    assert wire.append("/ds/greedy/a", b"a" * 30_000).refusal == (413, "memory_full")
    assert wire.append("/ds/modest/a", b"a" * 10_000).status == 204


def test_snapshots_count_for_their_bucket(start: Start, connect: Connect) -> None:
    wire = connect(start(limits__max_memory_bytes=100_000))
    wire.request("PUT", "/ds/greedy")
    wire.create("/ds/greedy/a", body=b"a")
    wire.create("/ds/greedy/b", body=b"a")
    at = f"{1:016d}"
    assert wire.request("PUT", f"/ds/greedy/a/snapshot/{at}", b"s" * 30_000).status == 204
    assert wire.request("PUT", f"/ds/greedy/b/snapshot/{at}", b"s" * 30_000).refusal == (413, "memory_full")
    assert wire.append("/ds/greedy/b", b"a" * 20_000).refusal == (413, "memory_full")


def test_deleting_gives_memory_back(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_memory_bytes=100_000))
    for _ in range(5):
        wire.create(path, body=b"a" * 80_000)
        assert wire.request("DELETE", path).status == 204


def test_empty_streams_count_too(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_memory_bytes=100_000)
    wire = connect(server)
    answers = [wire.request("PUT", f"{path}/{number}") for number in range(200)]
    assert answers[-1].refusal == (413, "memory_full")
    assert used_bytes(server) <= 100_000


def test_many_tiny_messages_count_with_what_it_takes_to_find_them(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_memory_bytes=100_000)
    wire = connect(server)
    wire.create(path, "application/json")
    batch = b"[" + b",".join([b"1"] * 5000) + b"]"
    answers = [wire.append(path, batch, "application/json").status for _ in range(5)]
    assert answers[0] == 204
    assert answers[-1] == 413
    assert used_bytes(server) <= 100_000


def test_a_body_that_cannot_fit_is_refused_before_it_is_parsed(start: Start, connect: Connect, path: str) -> None:
    """Parsing takes many times the memory of what is parsed."""
    wire = connect(start(limits__max_stream_bytes=1000))
    wire.create(path, "application/json")
    assert wire.append(path, b"x" * 2000, "application/json").refusal == (413, "stream_full")
    answer = wire.request("PUT", f"{path}/other", b"x" * 2000, content_type="application/json")
    assert answer.refusal == (413, "stream_full")


def test_reading_and_deleting_go_on_when_the_memory_is_full(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_memory_bytes=50_000))
    wire.create(path, body=b"a" * 40_000)
    assert wire.append(path, b"a" * 40_000).status == 413
    assert len(wire.get(path).body) == 40_000
    assert wire.request("POST", path, stream_closed="true").status == 204
    assert wire.request("DELETE", path).status == 204


def test_a_stream_with_too_many_producers_asks_for_patience(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_producers_per_stream=1))
    wire.create(path)
    claim = {"producer_epoch": "0", "producer_seq": "0"}
    assert wire.append(path, b"a", producer_id="one", **claim).status == 200
    answer = wire.append(path, b"b", producer_id="two", **claim)
    assert answer.refusal == (429, "too_many_producers")
    assert int(answer.headers["retry-after"]) > 0
    assert wire.get(path).body == b"a"


def test_recent_changes_leave_memory_early_where_little_is_allowed(
    start: Start, connect: Connect, path: str, tmp_path: Path
) -> None:
    """Without the limit 16 MiB of the journal are collected first."""
    values = {
        "storage__mode": StorageMode.ACID,
        "storage__data_dir": str(tmp_path),
        "limits__max_memory_bytes": 8 * 1024 * 1024,
    }
    server = start(open_storage(configured(**values)), **values)
    wire = connect(server)
    wire.create(path)
    wire.append(path, b"a" * 1_000_000)

    def checkpoints_done() -> int:
        checkpoints = server.call(server.engine.inspect).checkpoints
        return checkpoints.done if checkpoints else 0

    assert eventually(checkpoints_done)
    assert wire.get(path).body == b"a" * 1_000_000
