"""Spark Connect: a session whose Spark is a server elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.client.state_events import insert
from tests.spark import programs
from tests.spark.cluster import Program, bare_python, connect_server, program
from tests.spark.folds.histories import bootstrapped, written

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program whose Spark is a server that has the package."""
    with connect_server(tmp_path_factory.mktemp("connect"), "local[2]") as url, program({"remote": url}) as running:
        yield running


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program whose Spark has the package nowhere: not at the server, and not at its executor."""
    folder = tmp_path_factory.mktemp("bare")
    python = bare_python(folder / "python")
    with (
        connect_server(folder / "connect", "local-cluster[1,1,512]", PYSPARK_PYTHON=python) as url,
        program({"remote": url}) as running,
    ):
        yield running


def fill(client: Client, prefix: str, *, start: int = 0) -> list[int]:
    client.stream(f"{prefix}in").create()
    client.stream(f"{prefix}in").extend(range(start, start + 10))
    return list(range(start + 10))


def test_a_batch_is_read(remote: Program, client: Client, server: str, prefix: str) -> None:
    filled = fill(client, prefix)
    assert remote.run(programs.values, {"url": server, "stream": f"{prefix}in"}) == filled


def test_a_batch_is_written(remote: Program, client: Client, server: str, prefix: str) -> None:
    options = {"url": server, "stream": f"{prefix}out", "autoCreate": "true", "orderBy": "id"}
    remote.run(programs.write, 10, options)
    assert client.stream(f"{prefix}out").read().all() == [{"id": n} for n in range(10)]


def test_a_query_goes_on_from_its_checkpoint(
    remote: Program, client: Client, server: str, prefix: str, tmp_path: Path
) -> None:
    source = {"url": server, "stream": f"{prefix}in", "readOn": "tasks", "maxRowsPerTrigger": "8"}
    sink = {"url": server, "stream": f"{prefix}out", "autoCreate": "true"}
    fill(client, prefix)
    remote.run(programs.copy, source, sink, tmp_path)
    filled = fill(client, prefix, start=10)
    remote.run(programs.copy, source, sink, tmp_path)
    assert client.stream(f"{prefix}out").read().all() == filled


def test_the_helper_writes_and_progress_is_published(
    remote: Program, client: Client, server: str, prefix: str, tmp_path: Path
) -> None:
    source = {"url": server, "stream": f"{prefix}in"}
    sink = {"url": server, "stream": f"{prefix}out", "autoCreate": "true"}
    filled = fill(client, prefix)
    remote.run(programs.copy_with_listener, source, sink, tmp_path, f"{prefix}progress")
    assert client.stream(f"{prefix}out").read().all() == filled
    told = client.stream(f"{prefix}progress").read().all()
    assert any(change.get("value", {}).get("rows") == 10 for change in told)


def test_streams_are_folded(remote: Program, client: Client, server: str, prefix: str, tmp_path: Path) -> None:
    streams = [written(client, f"{prefix}in/{number}", [insert("user", "1", "Ada")]) for number in range(5)]
    options = {"url": server, "streamPrefix": f"{prefix}in/", "history": "drop"}
    assert remote.run(programs.fold, options) == ["published"] * 5
    streams[0].append(insert("user", "2", "Bob"))
    remote.run(programs.fold_by_query, options, tmp_path, f"{prefix}folds")
    assert bootstrapped(streams[0]) == {"user": {"1": "Ada", "2": "Bob"}}
    assert [change["key"] for change in client.stream(f"{prefix}folds").read()] == [streams[0].name]


def test_a_server_without_the_package_says_so(bare: Program, server: str) -> None:
    with pytest.raises(programs.Failed, match=r"can't load everbrook .*pip install 'everbrook\[spark\]' there"):
        bare.run(programs.values, {"url": server, "stream": "any"})


def test_the_package_is_sent_to_a_server_that_lacks_it(
    bare: Program, client: Client, server: str, prefix: str, tmp_path: Path
) -> None:
    source = {"url": server, "stream": f"{prefix}in"}
    sink = {"url": server, "stream": f"{prefix}out", "autoCreate": "true"}
    filled = fill(client, prefix)
    bare.run(programs.ship)
    assert bare.run(programs.values, source) == filled
    bare.run(programs.copy, source | {"readOn": "tasks"}, sink, tmp_path)
    assert client.stream(f"{prefix}out").read().all() == filled
