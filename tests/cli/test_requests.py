"""Budgets: which requests a command sends, as a proxy in front of a server sees them.

A command that asks for what it has been told already has to add a request here, so nobody does so unseen.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_read import following, lines_of
from tests.kit.faults.proxy import Proxy


@pytest.fixture
def proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with Proxy(int(url.rpartition(":")[2])) as proxy:
        monkeypatch.setenv("EVERBROOK_URL", proxy.origin)
        yield proxy


@pytest.fixture
def values(run: Run, stream: str) -> str:
    """A closed stream of JSON."""
    run("create", stream)
    run("append", stream, "1", "2", "3")
    run("close", stream)
    return stream


def requests(proxy: Proxy, run: Run, *line: str) -> list[str]:
    """Run a command line, and give the methods of its requests."""
    proxy.requests.clear()
    ran = run(*line)
    assert not ran.code, ran.err
    return [request.method for request in proxy.requests]


@pytest.mark.parametrize(
    "options, expected",
    [
        ((), ["HEAD", "POST"]),
        # The second HEAD asks for the state of the producer.
        (("--producer", "p"), ["HEAD", "HEAD", "POST"]),
    ],
)
def test_an_append_asks_once_for_the_stream(
    proxy: Proxy, run: Run, stream: str, options: tuple[str, ...], expected: list[str]
) -> None:
    run("create", stream)
    assert requests(proxy, run, "append", stream, "1", *options) == expected


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_tail_that_follows_gets_each_page_once(proxy: Proxy, run: Run, values: str, options: tuple[str, ...]) -> None:
    assert requests(proxy, run, "tail", values, "-f", *options) == ["HEAD", "GET"]


def test_a_tail_for_programs_reads_what_is_there_only_with_its_times(proxy: Proxy, run: Run, stream: str) -> None:
    run("create", stream)
    run("append", stream, "1", "2")
    proxy.requests.clear()
    with following(stream, "-n", "2", "--json") as process:
        lines_of(process, 2)
        run("append", stream, "3")
        lines_of(process, 1)
        targets = [request.target for request in proxy.requests if request.method == "GET"]
    frames = [target for target in targets if "format=frames" in target]
    assert targets[0] == frames[0]
    assert not any("offset=0000000000000000" in target or "last=" in target for target in targets[1:]), targets
    assert len(frames) == 2, targets


@pytest.mark.parametrize("line", [("read",), ("read", "--json"), ("tail", "--json"), ("read", "--last", "2", "--json")])
def test_a_read_gets_each_page_once(proxy: Proxy, run: Run, values: str, line: tuple[str, ...]) -> None:
    assert requests(proxy, run, *line, values) == ["HEAD", "GET"]


def test_a_bootstrap_gets_each_page_once(proxy: Proxy, run: Run, values: str) -> None:
    # The first GET asks for a snapshot.
    assert requests(proxy, run, "bootstrap", "--json", values) == ["HEAD", "GET", "GET"]
    assert requests(proxy, run, "bootstrap", "-f", "--json", values) == ["HEAD", "GET", "GET"]


def test_an_export_describes_each_stream_once(proxy: Proxy, run: Run, values: str) -> None:
    # The first GET is the list, which has the time of creation, and the last one reads the messages.
    assert requests(proxy, run, "export", values) == ["GET", "HEAD", "GET"]


def test_an_export_of_everything_lists_the_buckets_and_describes_none(proxy: Proxy, run: Run) -> None:
    run("bucket", "create", "described", "--retention", "max-age=60")
    requests(proxy, run, "export", "--all")
    assert "/ds/described" not in [request.target for request in proxy.requests]


def test_an_import_of_what_is_there_describes_each_stream_once(
    proxy: Proxy, run: Run, values: str, folder: Path
) -> None:
    (folder / "snapshot").write_text("6")
    run("snapshot", "publish", values, "snapshot", "--offset", "4", "--keep-history")
    run("export", values, "-o", "archive")
    # The GET finds out whether there is a server.
    assert requests(proxy, run, "import", "archive") == ["GET", "PUT", "HEAD"]
