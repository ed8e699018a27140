"""``everbrook append``: what becomes a message, from each kind of input, in each kind of stream."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from everbrook import Client
from tests.cli.conftest import Pipe, Run
from tests.kit.server_process import EVERBROOK

pytestmark = pytest.mark.usefixtures("url")


@pytest.fixture
def text(run: Run, stream: str) -> str:
    run("create", stream, "-t", "text")
    return stream


@pytest.fixture
def values(run: Run, stream: str) -> str:
    run("create", stream)
    return stream


def messages(run: Run, stream: str) -> list[object]:
    """Each message, with its boundaries as the server knows them."""
    lines = map(json.loads, run("read", stream, "--json").out.splitlines())
    return [line.get("text", line.get("value", line.get("base64"))) for line in lines]


def test_each_argument_is_a_message_as_it_is(run: Run, text: str) -> None:
    assert run("append", text, "one", "two").out == "0000000000000006\n"
    assert messages(run, text) == ["one", "two"]


def test_an_argument_gets_a_line_end_with_lines(run: Run, text: str) -> None:
    run("append", text, "--lines", "one", "two")
    assert messages(run, text) == ["one\n", "two\n"]


def test_each_argument_of_a_json_stream_is_a_value(run: Run, values: str) -> None:
    run("append", values, '{"a": 1}', "[1, 2]", "null")
    assert run("read", values).out == '{"a": 1}\n[1, 2]\nnull\n'


def test_standard_input_is_one_message(run: Run, pipe: Pipe, text: str) -> None:
    assert pipe("append", text, stdin=b"one\ntwo\n").stdout == b"0000000000000008\n"
    assert messages(run, text) == ["one\ntwo\n"]


def test_each_line_is_a_message_which_keeps_its_end(run: Run, pipe: Pipe, text: str) -> None:
    pipe("append", text, "--lines", stdin=b"one\r\n\ntwo")
    assert messages(run, text) == ["one\r\n", "\n", "two"]


def test_values_of_json_may_span_lines(run: Run, pipe: Pipe, values: str) -> None:
    pipe("append", values, stdin=b'1\n\n{"a": [\n  "}", 2\n]}\n"x"')
    assert messages(run, values) == [1, {"a": ["}", 2]}, "x"]


def test_json_comes_back_to_the_byte(run: Run, pipe: Pipe, values: str) -> None:
    line = b'{"z":1e2, "a":12345678901234567890123, "z":"\xc3\xa9"}\n'
    pipe("append", values, stdin=line)
    assert pipe("read", values).stdout == line


def test_any_bytes_go_through_a_pipe_and_back(run: Run, pipe: Pipe, stream: str) -> None:
    run("create", stream, "-t", "binary")
    data = os.urandom(600_000)
    pipe("append", stream, "--binary", stdin=data)
    assert pipe("read", stream).stdout == data
    assert len(messages(run, stream)) > 1


def test_files_are_appended_in_their_order(run: Run, folder: Path, text: str) -> None:
    (folder / "1").write_text("one")
    (folder / "2").write_text("two")
    run("append", text, "--file", "1", "--file", "2")
    assert messages(run, text) == ["one", "two"]


def test_programs_are_told_how_many_messages_that_were(pipe: Pipe, values: str) -> None:
    told = json.loads(pipe("append", values, "--json", stdin=b"1\n2\n").stdout)
    assert told == {"stream": values, "offset": "0000000000000004", "messages": 2}


def test_a_long_string_is_taken_apart_without_much_memory(pipe: Pipe, values: str) -> None:
    line = b'"%b"\n' % (b'x\\"' * 1_000_000)
    assert pipe("append", values, stdin=line).returncode == 0
    assert pipe("read", values).stdout == line


def test_many_lines_arrive_in_order(run: Run, pipe: Pipe, values: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(60_000))
    pipe("append", values, stdin=lines)
    assert pipe("read", values).stdout == lines


def test_a_producer_appends_exactly_once(run: Run, pipe: Pipe, values: str) -> None:
    assert pipe("append", values, "--producer", "me", stdin=b"1\n2\n").stdout == b"0000000000000004\n"
    assert pipe("append", values, "--producer", "me", stdin=b"1\n2\n").stdout == b"0000000000000004\n"
    assert pipe("append", values, "--producer", "me", stdin=b"1\n2\n3\n").stdout == b"0000000000000006\n"
    assert run("read", values).out == "1\n2\n3\n"


@pytest.mark.parametrize("how", [(), ("--lines",), ("--binary",)])
def test_a_producer_goes_on_with_text(run: Run, pipe: Pipe, text: str, how: tuple[str, ...]) -> None:
    inputs = [b"1\n2\n", b"1\n2\n", b"1\n2\n3\n"] if how else [b"1\n2\n"] * 2
    for stdin in inputs:
        assert pipe("append", text, *how, "--producer", "me", stdin=stdin).returncode == 0
    assert run("read", text).out == inputs[-1].decode()


@pytest.mark.parametrize(
    "stdin, words", [(b"1\n", "ends before them"), (b"1\n3\n4\n", "begins otherwise"), (b"12\n3\n", "begins otherwise")]
)
def test_a_producer_refuses_another_input(run: Run, pipe: Pipe, values: str, stdin: bytes, words: str) -> None:
    pipe("append", values, "--producer", "me", stdin=b"1\n2\n")
    ran = pipe("append", values, "--producer", "me", stdin=stdin)
    assert (ran.returncode, ran.stderr.count(b"\n")) == (2, 1)
    assert words in ran.stderr.decode()
    assert run("read", values).out == "1\n2\n"


def test_what_is_skipped_of_another_input_is_not_told_as_appended(run: Run, values: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    arguments = [argument for file in files for argument in ("--file", str(file))]
    files[0].write_text("1\n")
    files[1].write_text("2\n")
    run("append", values, "--producer", "me", *arguments)
    files[1].write_text("3\n")
    ran = run("append", values, "--producer", "me", *arguments)
    assert ran.code == 2
    assert "begins otherwise" in ran.err
    assert "are appended" not in ran.err


def test_another_input_is_appended_anew(run: Run, pipe: Pipe, values: str) -> None:
    pipe("append", values, "--producer", "me", stdin=b"1\n2\n")
    for stdin in (b"3\n", b"3\n4\n"):
        options = ("--anew",) if stdin == b"3\n" else ()
        assert pipe("append", values, "--producer", "me", *options, stdin=stdin).returncode == 0
    assert run("read", values).out == "1\n2\n3\n4\n"


def test_an_empty_message_is_refused_and_not_left_out(run: Run, text: str) -> None:
    assert run("append", text, "", "--producer", "me").code != 0
    assert run("append", text, "a", "", "--producer", "you").code != 0


def test_the_producer_of_another_program_is_refused(run: Run, pipe: Pipe, url: str, values: str) -> None:
    with Client(url) as client, client.stream(values).producer("me", resume=True) as producer:
        producer.append(1, position="line 1")
    ran = pipe("append", values, "--producer", "me", stdin=b"1\n2\n")
    assert "its position is 'line 1'" in ran.stderr.decode()


def test_a_producer_keeps_the_lines_of_text_apart(run: Run, pipe: Pipe, text: str) -> None:
    pipe("append", text, "--lines", "--producer", "me", stdin=b"1\n2\n")
    assert messages(run, text) == ["1\n", "2\n"]


def test_an_append_that_must_follow_an_offset_is_refused_elsewhere(run: Run, values: str) -> None:
    assert run("append", values, "1", "--if-match", "0").code == 0
    ran = run("append", values, "2", "--if-match", "0")
    assert (ran.code, "`everbrook head` shows its tail" in ran.err) == (1, True)


def test_what_arrives_is_sent_at_once(run: Run, values: str) -> None:
    with subprocess.Popen([EVERBROOK, "append", values], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"1\n")
        process.stdin.flush()
        until = time.monotonic() + 20
        while not run("read", values).out and time.monotonic() < until:
            time.sleep(0.05)
        assert run("read", values).out == "1\n"
        process.communicate(b"2\n", timeout=20)
    assert run("read", values).out == "1\n2\n"


@pytest.mark.parametrize(
    "content_type, line, stdin, words",
    [
        ("json", ("nope",), b"", "MESSAGE: 'nope' is not JSON"),
        ("json", (), b"1\n{\n", "standard input, line 2: '{' is not JSON"),
        ("json", (), b"1 2\n", "'1 2' is not JSON"),
        ("json", (), b'"\xff"\n', "is not JSON"),
        ("json", (), b"", "nothing to append"),
        ("json", ("--binary",), b"x", "--binary is not for JSON streams"),
        ("text", ("--json",), b"1", "--json is for JSON streams, but this stream is text/plain"),
        ("text", ("--binary", "--lines"), b"x", "--binary can't be combined with --lines or --json"),
        ("text", ("--producer", "p", "--if-match", "0", "x"), b"", "can't be combined"),
        ("text", ("--anew", "x"), b"", "--anew needs --producer"),
        ("text", ("--file", "missing"), b"", "missing"),
        ("text", (), b"", "nothing to append: the input is empty"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    run: Run, pipe: Pipe, stream: str, content_type: str, line: tuple[str, ...], stdin: bytes, words: str
) -> None:
    run("create", stream, "-t", content_type)
    ran = pipe("append", stream, *line, stdin=stdin)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (2, b"", 1)
    assert words in ran.stderr.decode()


def test_a_value_that_is_no_json_is_named_with_what_came_before_it(run: Run, folder: Path, values: str) -> None:
    (folder / "good").write_text("1\n2\n")
    (folder / "bad").write_text("3\nx\n")
    ran = run("append", values, "--file", "good", "--file", "bad")
    assert ran.err == (
        "everbrook: bad, line 2: 'x' is not JSON (JSON is malformed: invalid character (byte 0)); "
        "the 2 messages before it are appended\n"
    )
    assert run("read", values).out == "1\n2\n"


@pytest.mark.parametrize("line, code", [(("append", "nothing", "1"), 3), (("append", "s"), 2)])
def test_a_missing_stream_is_told_before_input_is_read(run: Run, line: tuple[str, ...], code: int) -> None:
    ran = run(*line) if code == 3 else run("append")
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)


def test_a_closed_stream_takes_nothing(run: Run, values: str) -> None:
    run("close", values)
    ran = run("append", values, "1")
    assert (ran.code, "`everbrook fork` makes an open stream with its messages" in ran.err) == (1, True)


def test_lone_surrogates_are_appended_and_read_as_they_are(run: Run, values: str) -> None:
    """Gap G-03."""
    run("append", values, r'"\ud83d"', r'{"a":"\ude00"}')
    assert run("read", values).out.splitlines() == [r'"\ud83d"', r'{"a":"\ude00"}']
