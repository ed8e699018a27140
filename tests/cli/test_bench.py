"""``everbrook bench``: figures of a running server, and streams that are gone afterwards."""

import json

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("url")


def test_every_case_has_a_row(run: Run) -> None:
    ran = run("bench", "--seconds", "0.3", "--connections", "2")
    titles, *rows = ran.out.splitlines()
    assert titles.split() == ["case", "connections", "per", "second", "MB/s", "p50", "ms", "p99", "ms"]
    assert [row.split()[:2] for row in rows] == [["append", "2"], ["read", "2"], ["follow", "2"]]


@pytest.mark.parametrize("case", ["append", "read", "follow"])
def test_a_case_counts_what_it_did(run: Run, case: str) -> None:
    told = json.loads(run("bench", case, "--seconds", "0.3", "--connections", "2", "--bytes", "100", "--json").out)
    assert (told["case"], told["connections"], told["message_bytes"]) == (case, 2, 100)
    assert min(told["per_second"], told["mb_per_second"], told["p50_ms"]) > 0
    assert told["p99_ms"] >= told["p50_ms"]


def test_its_streams_are_gone_afterwards(run: Run) -> None:
    run("bench", "--seconds", "0.1", "--connections", "1")
    assert run("ls", "everbrook-bench").out == ""


@pytest.mark.parametrize(
    "line, code, words",
    [
        (("--url", "http://127.0.0.1:1"), 4, "is the server running?"),
        (("--seconds", "0"), 2, "--seconds"),
        (("--bytes", "3"), 2, "--bytes"),
        (("write",), 2, "'write'"),
    ],
)
def test_what_goes_wrong_is_one_line(run: Run, line: tuple[str, ...], code: int, words: str) -> None:
    ran = run("bench", *line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert words in ran.err
