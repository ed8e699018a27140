"""``everbrook snapshot`` and ``everbrook bootstrap``."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Pipe, Run
from tests.kit.server_process import EVERBROOK

pytestmark = pytest.mark.usefixtures("url")


@pytest.fixture
def numbers(run: Run, stream: str) -> str:
    """A JSON stream of 1 to 5, of two bytes each."""
    run("create", stream)
    run("append", stream, "1", "2", "3", "4", "5")
    return stream


def test_a_snapshot_is_published_from_a_file_and_printed_as_it_is(run: Run, folder: Path, numbers: str) -> None:
    (folder / "state").write_text('{"sum": 6}')
    assert (
        run("snapshot", "publish", numbers, "state", "--offset", "6").out == "published 10 bytes at 0000000000000006\n"
    )
    assert run("snapshot", "get", numbers).out == '{"sum": 6}\n'
    assert run("read", numbers, "--offset", "6").out == "4\n5\n"


def test_a_snapshot_is_published_from_standard_input_to_the_byte(pipe: Pipe, numbers: str) -> None:
    data = bytes(range(256))
    pipe("snapshot", "publish", numbers, "--offset", "2", "-t", "binary", stdin=data)
    assert pipe("snapshot", "get", numbers).stdout == data


@pytest.mark.parametrize(
    "content_type, data, told",
    [("json", b"[1]", ("value", [1])), ("text", b"a", ("text", "a")), ("binary", b"\xff", ("base64", "/w=="))],
)
def test_a_snapshot_is_told_to_programs(
    run: Run, pipe: Pipe, numbers: str, content_type: str, data: bytes, told: tuple[str, object]
) -> None:
    pipe("snapshot", "publish", numbers, "--offset", "2", "-t", content_type, stdin=data)
    facts = json.loads(run("snapshot", "get", numbers, "--json").out)
    assert facts["snapshot"] == "0000000000000002"
    assert facts[told[0]] == told[1]


def test_history_may_be_kept_and_then_the_snapshot_deleted(run: Run, pipe: Pipe, numbers: str) -> None:
    pipe("snapshot", "publish", numbers, "--offset", "2", "--keep-history", stdin=b"1")
    assert run("read", numbers).out == "1\n2\n3\n4\n5\n"
    assert json.loads(run("snapshot", "rm", numbers, "--json").out)["deleted"] is True
    assert run("snapshot", "get", numbers).code == 3


def test_a_bootstrap_is_the_snapshot_and_what_follows(run: Run, pipe: Pipe, numbers: str) -> None:
    pipe("snapshot", "publish", numbers, "--offset", "6", stdin=b'{"sum":6}')
    assert run("bootstrap", numbers).out == '{"sum":6}\n4\n5\n'


def test_a_bootstrap_without_a_snapshot_is_the_stream(run: Run, numbers: str) -> None:
    assert run("bootstrap", numbers).out == "1\n2\n3\n4\n5\n"


def test_a_bootstrap_for_programs_ends_with_where_to_follow(run: Run, pipe: Pipe, numbers: str) -> None:
    pipe("snapshot", "publish", numbers, "--offset", "8", stdin=b'{"sum":10}')
    snapshot, message, end = map(json.loads, run("bootstrap", numbers, "--json").out.splitlines())
    assert (snapshot["value"], message["value"], end) == ({"sum": 10}, 5, {"next_offset": "0000000000000010"})


def test_a_bootstrap_without_messages_ends_where_the_stream_does(run: Run, pipe: Pipe, numbers: str) -> None:
    run("create", f"{numbers}-empty")
    assert run("bootstrap", f"{numbers}-empty", "--json").out == '{"next_offset":"0000000000000000"}\n'
    end = run("head", numbers, "--json").out
    pipe("snapshot", "publish", numbers, "--offset", json.loads(end)["offset"], stdin=b"{}")
    last = run("bootstrap", numbers, "--json").out.splitlines()[-1]
    assert json.loads(last) == {"next_offset": json.loads(end)["offset"]}


def test_a_bootstrap_goes_on_until_the_stream_is_closed(run: Run, numbers: str) -> None:
    line = [EVERBROOK, "bootstrap", "-f", numbers]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(5)]
        run("close", numbers, "6")
        assert (seen[-1], process.stdout.read(), process.wait()) == (b"5\n", b"6\n", 0)


@pytest.mark.parametrize(
    "line, code, words",
    [
        (("snapshot", "get", "{}"), 3, "has no snapshot: `everbrook snapshot publish` makes one"),
        (("snapshot", "rm", "{}"), 3, "has no snapshot"),
        (("snapshot", "publish", "{}", "/dev/null"), 2, "--offset"),
        (("snapshot", "publish", "{}", "missing", "--offset", "2"), 2, "missing"),
        (("snapshot", "publish", "{}", "/dev/null", "--offset", "3"), 1, "3"),
        (("snapshot", "publish", "{}", "/dev/null", "--offset", "99"), 1, "99"),
        (("bootstrap", "nothing"), 3, "there is no such stream"),
    ],
)
def test_what_goes_wrong_is_one_line(run: Run, numbers: str, line: tuple[str, ...], code: int, words: str) -> None:
    ran = run(*(word.format(numbers) for word in line))
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert words in ran.err
