"""``everbrook read`` and ``everbrook tail``: what is printed, where it begins, and how it ends in pipes."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Run
from tests.kit.server_process import EVERBROOK

TIMEOUT_SECS = 120

pytestmark = pytest.mark.usefixtures("url")


@pytest.fixture
def numbers(run: Run, stream: str) -> str:
    """A JSON stream of 1 to 20."""
    run("create", stream)
    run("append", stream, *map(str, range(1, 21)))
    return stream


@contextmanager
def following(*args: str) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen([EVERBROOK, "tail", "-f", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: "subprocess.Popen[bytes]", count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


@pytest.mark.parametrize(
    "options, expected",
    [
        ((), range(1, 21)),
        (("--last", "2"), [19, 20]),
        (("--skip", "18"), [19, 20]),
        (("--offset", "2", "--until", "6"), [2, 3]),
        (("--offset", "0000000000000048"), [20]),
        (("--offset", "now"), []),
        (("--at", "1"), range(1, 21)),
        (("--at", "2100-01-01T00:00:00Z"), []),
    ],
)
def test_a_read_is_bounded_as_asked(run: Run, numbers: str, options: tuple[str, ...], expected: list[int]) -> None:
    assert [int(line) for line in run("read", numbers, *options).out.splitlines()] == list(expected)


@pytest.mark.parametrize(
    "options, expected",
    [
        ((), range(11, 21)),
        (("-n", "2"), [19, 20]),
        (("-n", "+19"), [19, 20]),
        (("-n", "0"), []),
        (("-n", "99"), range(1, 21)),
    ],
)
def test_tail_prints_the_end(run: Run, numbers: str, options: tuple[str, ...], expected: list[int]) -> None:
    assert [int(line) for line in run("tail", numbers, *options).out.splitlines()] == list(expected)


def test_a_read_for_programs_has_offset_time_and_value(run: Run, numbers: str) -> None:
    [line] = run("read", numbers, "--json", "--last", "1").out.splitlines()
    told = json.loads(line)
    assert (told["offset"], told["value"]) == ("0000000000000048", 20)
    assert told["time_ms"] > 1_700_000_000_000


def test_text_is_printed_as_it_is(run: Run, stream: str) -> None:
    run("create", stream, "-t", "text")
    run("append", stream, "no", " end")
    assert run("read", stream).out == "no end"


def test_line_ends_within_a_message_become_spaces(run: Run, stream: str) -> None:
    run("create", stream)
    run("append", stream, '{"a":\r\n1}')
    assert run("read", stream).out == '{"a":  1}\n'


def test_a_stream_that_was_cut_is_read_from_where_it_begins(run: Run, numbers: str) -> None:
    run("append", numbers, "21")
    run("snapshot", "publish", numbers, "/dev/null", "--offset", "51", "--type", "text")
    ran = run("read", numbers)
    assert (ran.code, ran.out) == (0, "21\n")
    assert ran.err.startswith("everbrook: messages before offset 0000000000000051 were cut; ")


def test_an_offset_that_was_cut_is_not_there(run: Run, numbers: str) -> None:
    run("snapshot", "publish", numbers, "/dev/null", "--offset", "4", "--type", "text")
    ran = run("read", numbers, "--offset", "2")
    assert (ran.code, "`everbrook bootstrap` prints the snapshot" in ran.err) == (3, True)


@pytest.mark.parametrize("command", ["read", "tail"])
def test_a_stream_that_is_not_there_is_exit_code_3(run: Run, command: str) -> None:
    ran = run(command, "nothing")
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)


@pytest.mark.parametrize(
    "line, code, words",
    [
        (("tail", "s", "-n", "x"), 2, "'x' is neither a number of messages nor + and a number"),
        (("read", "s", "--last", "0"), 2, "0 is not in the range"),
        (("read", "s", "--last", "1", "--offset", "0"), 2, "pass one of them"),
        (("read", "s", "--offset", "x"), 1, "offset must be one that this server issued"),
        (("read", "s", "--at", "x"), 1, "at must be an RFC 3339 timestamp"),
        (("read", "s", "--offset", "1"), 1, "1"),
    ],
)
def test_a_wrong_bound_is_told(run: Run, line: tuple[str, ...], code: int, words: str) -> None:
    run("create", "s")
    run("append", "s", "123")
    ran = run(*line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert words in ran.err


def test_following_goes_on_until_the_stream_is_closed(run: Run, numbers: str) -> None:
    with following(numbers, "-n", "1") as process:
        assert lines_of(process, 1) == [b"20\n"]
        run("append", numbers, "21")
        assert lines_of(process, 1) == [b"21\n"]
        run("close", numbers, "22")
        assert lines_of(process, 2) == [b"22\n", b""]
        assert process.wait(TIMEOUT_SECS) == 0


def test_text_is_followed_to_the_byte(run: Run, stream: str) -> None:
    run("create", stream, "-t", "text")
    with following(stream) as process:
        run("append", stream, "a\r\n\rb\r")
        run("close", stream, "\r\n")
        assert process.communicate(timeout=TIMEOUT_SECS)[0] == b"a\r\n\rb\r\r\n"


def test_following_for_programs_has_offsets_and_times(run: Run, numbers: str) -> None:
    with following(numbers, "-n", "1", "--json") as process:
        lines_of(process, 1)
        run("append", numbers, "21")
        told = json.loads(lines_of(process, 1)[0])
        assert (told["offset"], told["value"]) == ("0000000000000051", 21)


def test_following_ends_when_nobody_reads_any_more(numbers: str) -> None:
    with following(numbers) as process:
        lines_of(process, 1)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(TIMEOUT_SECS) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_an_interrupt_is_exit_code_130_and_no_traceback(numbers: str) -> None:
    with following(numbers) as process:
        lines_of(process, 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECS) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == b""


@pytest.mark.parametrize("line", ["read {}", "tail -n +1 {}", "ls", "--help", "config show"])
def test_a_pipe_that_is_closed_early_is_no_complaint(run: Run, stream: str, line: str) -> None:
    run("create", stream)
    run("append", stream, *(f'"{"x" * 100_000}"' for _ in range(4)))
    script = f"{EVERBROOK} {line.format(stream)} | true; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=TIMEOUT_SECS)
    assert ran.stderr == ""
    assert ran.stdout in {"141\n", "0\n"}
