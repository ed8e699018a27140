"""/metrics tells what the server did, in words that are no stream's name."""

import asyncio
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from everbrook.engine import Clock, Faults
from everbrook.server.auth.api_keys import ApiKeyFile, format_file, make_key
from everbrook.server.methods import OPERATIONS
from everbrook.server.observe.catalogue import METRICS, PROCESS_METRICS
from everbrook.server.observe.counters import Counters
from everbrook.server.observe.event_loop import LoopLag
from everbrook.server.serve import reload
from everbrook.settings import StorageMode
from everbrook.storage import DurableStorage, OsDisk, StorageTuning
from tests.kit.server_thread import QUICK_TICKS, GatedStorage, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.server.observe.scrape import scrape, value


def new_key(path: Path, scopes: str) -> str:
    """Write a file of keys with one in it, and give that."""
    text, key = make_key(scopes, int(time.time()))
    path.write_bytes(format_file(ApiKeyFile().add(key)))
    path.chmod(0o600)
    return text


def test_requests_are_counted_by_operation_method_and_status(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    wire = connect(start_either())
    wire.create(path)
    wire.append(path, b"one")
    wire.append(path, b"two")
    assert value(wire, "everbrook_requests_total", operation="append", method="POST", status="204") == 2
    assert value(wire, "everbrook_requests_total", operation="create", method="PUT", status="201") == 1


@pytest.mark.parametrize(
    "query, operation", [("", "read"), ("?offset=-1&live=long-poll", "long_poll"), ("?offset=-1&live=sse", "sse")]
)
def test_the_three_ways_to_read_are_three_operations(
    start_either: StartEither, connect: Connect, path: str, query: str, operation: str
) -> None:
    server = start_either()
    wire = connect(server)
    wire.create(path, body=b"there")
    connect(server).ask("GET", path + query).read_head()
    seen = {"operation": operation, "method": "GET", "status": "200"}
    assert eventually(lambda: value(wire, "everbrook_requests_total", **seen) == 1)


@pytest.mark.parametrize(
    "method, target, operation",
    [
        ("GET", "/healthz", "probe"),
        ("GET", "/nowhere", "other"),
        ("OPTIONS", "/v1/stream/x", "preflight"),
        ("GET", "/v1/stream/none?offset=-1&live=sse", "sse"),
        ("HEAD", "/v1/stream/none", "head"),
        ("DELETE", "/v1/stream/none", "delete"),
        ("PUT", "/ds/bucket-1", "bucket_create"),
        ("GET", "/ds/bucket-2/stream-1", "read"),
        ("GET", "/v1/stream/__ds/streams", "listing"),
        ("GET", "/v1/stream/none/__ds/bootstrap", "bootstrap"),
        ("DELETE", "/v1/stream/none/__ds/snapshot/1", "snapshot_delete"),
        ("DELETE", "/v1/stream/__ds/subscriptions/none", "subscription_delete"),
    ],
)
def test_every_resource_has_its_operation(
    start: Start, connect: Connect, method: str, target: str, operation: str
) -> None:
    wire = connect(start())
    wire.ask(method, target).read(head_only=method == "HEAD")
    counted = [labels for name, labels in scrape(wire) if name == "everbrook_requests_total"]
    assert ("operation", operation) in {pair for labels in counted for pair in labels}


def test_labels_are_words_of_ours_whatever_is_sent(start: Start, connect: Connect) -> None:
    server = start()
    for method in ("PROPFIND", "GET", "PATCH"):
        with server.connect() as other:
            other.ask(method, "/v1/stream/secret-name?live=nonsense").read()
    found = scrape(connect(server))
    labels = {pair for name, pairs in found if name == "everbrook_requests_total" for pair in pairs}
    assert {value for label, value in labels if label == "method"} <= {"GET", "other"}
    assert {value for label, value in labels if label == "operation"} <= set(OPERATIONS)
    assert "secret-name" not in str(found)


def test_durations_are_in_buckets_that_add_up(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start())
    wire.create(path)
    found = scrape(wire)
    buckets = [
        (float(dict(labels)["le"]), count)
        for (name, labels), count in found.items()
        if name == "everbrook_request_duration_seconds_bucket" and ("operation", "create") in labels
    ]
    assert (min(buckets)[0], sorted(buckets)[-2][0]) == (0.0001, 30.0)
    assert [count for _, count in sorted(buckets)][-1] == 1


def test_a_long_poll_takes_as_long_as_it_waits(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(server__long_poll_timeout_secs=0.2))
    wire.create(path)
    wire.get(f"{path}?offset=now&live=long-poll")
    assert value(wire, "everbrook_request_duration_seconds_sum", operation="long_poll") >= 0.15


def test_appended_messages_bytes_and_duplicates_are_counted(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start())
    wire.create(path, "application/json")
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    for _ in range(2):
        wire.append(path, b"[1,2,3]", "application/json", **producer)
    assert value(wire, "everbrook_appended_messages_total") == 3
    assert value(wire, "everbrook_duplicate_appends_total") == 1


def test_refusals_are_counted_by_code(start: Start, connect: Connect) -> None:
    wire = connect(start())
    wire.get("/v1/stream/none")
    assert value(wire, "everbrook_refusals_total", code="stream_not_found") == 1


def test_what_is_no_request_is_counted_too(start: Start, connect: Connect) -> None:
    server = start()
    connect(server).send(b"nonsense\r\n\r\n").read()
    assert value(connect(server), "everbrook_refusals_total", code="bad_request") == 1


def test_bytes_that_are_read_are_counted(start_either: StartEither, connect: Connect, path: str) -> None:
    server = start_either()
    wire = connect(server)
    wire.create(path, body=b"x" * 1000)
    wire.get(path)
    follower = connect(server).follow(f"{path}?offset=-1&live=sse")
    follower.event()
    assert value(wire, "everbrook_response_bytes_total", operation="read") == 1000
    assert eventually(lambda: value(wire, "everbrook_response_bytes_total", operation="sse") > 1000)


def test_those_who_follow_are_counted_while_they_do(start_either: StartEither, connect: Connect, path: str) -> None:
    server = start_either()
    wire, other = connect(server), connect(server)
    wire.create(path)
    other.follow(f"{path}?offset=-1&live=sse").event()
    assert value(wire, "everbrook_live_readers", mode="sse", surface="base") == 1
    other.close()
    assert eventually(lambda: value(wire, "everbrook_live_readers", mode="sse", surface="base") == 0)


def test_a_reader_that_takes_nothing_is_behind(start: Start, connect: Connect, path: str) -> None:
    server = start()
    wire, slow = connect(server), connect(server, 4096)
    wire.create(path)
    slow.ask("GET", f"{path}?offset=-1&live=sse").read_head()
    for _ in range(20):
        wire.append(path, b"x" * 500_000)
    assert value(wire, "everbrook_live_readers_behind") == 1
    assert value(wire, "everbrook_live_readers_max_behind_bytes") > 500_000
    assert value(wire, "everbrook_connections_congested") == 1


def test_what_waits_for_the_disk_is_told_with_its_age(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    server = start(storage)
    wire, other = connect(server), connect(server)
    wire.ask("PUT", path)
    assert eventually(lambda: value(other, "everbrook_commit_parked_answers") >= 1)
    assert value(other, "everbrook_commit_pending_changes") >= 1
    assert value(other, "everbrook_commit_oldest_pending_seconds") > 0
    storage.gate.set()
    assert wire.read().status == 201
    assert value(other, "everbrook_commit_oldest_pending_seconds") == 0


def test_a_durable_store_tells_of_its_groups_journal_and_disk(
    start: Start, connect: Connect, path: str, tmp_path: Path
) -> None:
    storage = DurableStorage(OsDisk(), tmp_path / "acid", salt=1, tuning=StorageTuning(checkpoint_bytes=1000))
    wire = connect(start(storage, storage__data_dir=str(tmp_path), storage__mode=StorageMode.ACID))
    wire.create(path, body=b"x" * 5000)
    wire.append(path, b"more")
    assert value(wire, "everbrook_commit_sync_seconds_count") >= 2
    assert value(wire, "everbrook_commit_group_changes_sum") >= 2
    assert value(wire, "everbrook_storage_disk_free_bytes") > 0
    assert eventually(lambda: value(wire, "everbrook_checkpoints_total", outcome="ok") >= 1)
    assert eventually(lambda: value(wire, "everbrook_storage_disk_bytes") > 0)


@pytest.mark.usefixtures("faults")
def test_a_failed_storage_is_told(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.failure = OSError("gone")
    storage.gate.set()
    wire = connect(start(storage))
    wire.ask("PUT", path).read()
    assert value(wire, "everbrook_storage_failed") == 1


def test_a_connection_too_many_is_counted(start: Start, connect: Connect) -> None:
    server = start(limits__max_connections=1)
    wire = connect(server)
    wire.get("/healthz")
    connect(server).read()
    assert value(wire, "everbrook_connections_refused_total", reason="unavailable") == 1
    assert value(wire, "everbrook_connections_accepted_total") == 2


def test_a_server_has_the_metrics_of_the_catalogue_and_no_others(start: Start, connect: Connect) -> None:
    body = connect(start()).get("/metrics").body.decode()
    families = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(body)
    }
    assert families.keys() == METRICS.keys() | PROCESS_METRICS.keys()
    assert {name: families[name].type for name in METRICS} == {name: each.kind for name, each in METRICS.items()}


def test_openmetrics_is_given_to_who_asks_for_it(start: Start, connect: Connect) -> None:
    answer = connect(start()).get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
@pytest.mark.parametrize("version", ["abc", "1.x", "1..0", "9" * 5000], ids=["word", "part", "empty", "long"])
def test_a_version_that_is_no_number_gives_the_usual_format(
    start: Start, connect: Connect, kind: str, version: str
) -> None:
    answer = connect(start()).get("/metrics", Accept=f"{kind}; version={version}")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")


def test_metrics_that_are_turned_off_are_not_there(start: Start, connect: Connect) -> None:
    server = start(metrics__enabled=False)
    assert connect(server).get("/metrics").status == 404
    assert server.application.observer.tallies.all() == []


def test_metrics_are_only_read(start: Start, connect: Connect) -> None:
    answer = connect(start()).request("POST", "/metrics", b"")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("name, label", [("anything", "ok"), ("reloads", "what a client sent")])
def test_a_counter_that_is_not_in_the_table_is_refused(name: str, label: str) -> None:
    with pytest.raises(KeyError):
        Counters().add(name, label)


def test_a_reload_that_fails_is_counted_as_one_each_time(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(format_file(ApiKeyFile((make_key("admin:/", 0)[1],))))
    server = start(auth__api_keys_path=str(keys))
    keys.write_text("broken")
    for _ in range(2):
        server.call(lambda: reload(server.application))
    assert server.application.observer.counters.of("reloads") == {"ok": 0, "failed": 2}
    assert caplog.text.count("keys.json can't be used") == 2
    caplog.clear()


def test_what_never_happened_was_counted_zero_times(start: Start, connect: Connect) -> None:
    text = connect(start()).get("/metrics").body.decode()
    assert 'everbrook_reloads_total{outcome="failed"} 0' in text
    assert 'everbrook_slow_ended_total{kind="reader"} 0' in text


def test_a_loop_that_is_busy_lags() -> None:
    async def look() -> float:
        loop = asyncio.get_running_loop()
        lag = LoopLag(loop, Faults(Clock(), loop))
        lag.start()
        time.sleep(0.4)  # noqa: ASYNC251 - it is what the test is about
        await asyncio.sleep(0.01)
        lag.stop()
        return lag.last_secs

    assert asyncio.run(look()) >= 0.1


def test_a_sender_that_is_too_slow_is_counted(start: Start, connect: Connect) -> None:
    server = start(tuning=QUICK_TICKS, server__request_timeout_secs=0.1)
    connect(server).send(b"GET / HTTP/1.1\r\n").read()
    assert value(connect(server), "everbrook_slow_ended_total", kind="sender") == 1


def test_where_there_is_a_policy_metrics_are_for_those_who_have_admin(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    key = new_key(keys, "admin:/metrics")
    closed = connect(start(auth__api_keys_path=str(keys)))
    assert closed.get("/metrics").status == 401
    assert closed.get("/metrics", authorization=f"Bearer {key}").status == 200


def test_a_setting_opens_them_to_everybody(start: Start, connect: Connect, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    new_key(keys, "admin:/metrics")
    assert connect(start(auth__api_keys_path=str(keys), metrics__public=True)).get("/metrics").status == 200
