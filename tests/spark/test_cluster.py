"""A standalone cluster of a master and two workers: rows come through both, and nothing is lost when one dies."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.client.state_events import insert
from tests.spark import programs
from tests.spark.cluster import QUIET, SMALL, Cluster, Program, bare_python, program, standalone
from tests.spark.folds.histories import bootstrapped, written

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Program]:
    """A program whose executors are at both workers."""
    executors = {"spark.scheduler.minRegisteredResourcesRatio": "1", "spark.driver.memory": "768m"}
    with program({"master": cluster.url, "config": QUIET | SMALL | executors}) as running:
        yield running


def fill(client: Client, prefix: str, *, start: int = 0, count: int = 50) -> None:
    for name in "abcd":
        client.stream(f"{prefix}in/{name}").create()
        client.stream(f"{prefix}in/{name}").extend(f"{name}{n}" for n in range(start, start + count))


def in_order(client: Client, name: str, count: int) -> bool:
    """Whether a stream has everything once, in the order of each source."""
    found = client.stream(name).read().all()
    return len(found) == 4 * count and all(
        [value for value in found if value[0] == name] == [f"{name}{n}" for n in range(count)] for name in "abcd"
    )


def test_a_batch_is_read_by_both_workers(driver: Program, client: Client, server: str, prefix: str) -> None:
    fill(client, prefix)
    counted = driver.run(programs.rows_by_executor, {"url": server, "streamPrefix": prefix, "minPartitions": "4"})
    assert len(counted) == 2
    assert sum(counted.values()) == 200


def test_rows_of_all_workers_are_written(driver: Program, client: Client, server: str, prefix: str) -> None:
    options = {"url": server, "stream": f"{prefix}out", "autoCreate": "true", "orderBy": "id"}
    driver.run(programs.write, 100, options)
    assert client.stream(f"{prefix}out").read().all() == [{"id": n} for n in range(100)]


def test_a_query_goes_on_from_its_checkpoint(
    driver: Program, client: Client, server: str, prefix: str, tmp_path: Path
) -> None:
    source = {"url": server, "streamPrefix": f"{prefix}in/", "readOn": "tasks", "maxRowsPerTrigger": "120"}
    sink = {"url": server, "stream": f"{prefix}out", "autoCreate": "true"}
    fill(client, prefix)
    driver.run(programs.copy, source, sink, tmp_path)
    fill(client, prefix, start=50)
    driver.run(programs.copy, source, sink, tmp_path)
    assert in_order(client, f"{prefix}out", 100)


def test_streams_are_folded_by_the_workers(driver: Program, client: Client, server: str, prefix: str) -> None:
    streams = [written(client, f"{prefix}{number}", [insert("user", "1", number)]) for number in range(5)]
    outcomes = driver.run(programs.fold, {"url": server, "streamPrefix": prefix})
    assert outcomes == ["published"] * 5
    assert bootstrapped(streams[4]) == {"user": {"1": 4}}


def test_the_package_is_sent_to_workers_that_lack_it(
    driver: Program, client: Client, server: str, prefix: str, tmp_path: Path
) -> None:
    source = {"url": server, "streamPrefix": f"{prefix}in/", "readOn": "tasks"}
    sink = {"url": server, "stream": f"{prefix}out", "autoCreate": "true"}
    fill(client, prefix)
    driver.run(programs.use_python, bare_python(tmp_path / "bare"))
    with pytest.raises(programs.Failed, match=r"can't load everbrook .* pip install 'everbrook\[spark\]' there"):
        driver.run(programs.values, source)
    driver.run(programs.ship)
    driver.run(programs.copy, source, sink, tmp_path / "checkpoint")
    driver.run(programs.use_python, sys.executable)
    assert in_order(client, f"{prefix}out", 50)


def test_a_worker_that_dies_takes_nothing_with_it(
    cluster: Cluster, driver: Program, client: Client, server: str, prefix: str, tmp_path: Path
) -> None:
    source = {"url": server, "streamPrefix": f"{prefix}in/", "readOn": "tasks", "maxRowsPerTrigger": "80"}
    sink = {"url": server, "stream": f"{prefix}out"}
    fill(client, prefix, count=100)
    client.stream(f"{prefix}out").create()
    copying = driver.start(programs.copy, source, sink, tmp_path, slow=True)
    while not copying.done() and not client.stream(f"{prefix}out").head().offset.strip("0"):
        time.sleep(0.02)
    assert not copying.done()
    cluster.workers[0].kill()
    copying.result(programs.TIMEOUT_SECS)
    assert in_order(client, f"{prefix}out", 100)
