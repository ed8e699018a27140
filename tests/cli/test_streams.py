"""``create``, ``head``, ``close``, ``rm`` and ``fork``: what they do, print, and end with."""

import json

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("url")


def facts(run: Run, *args: str) -> dict[str, object]:
    ran = run("head", *args, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, object] = json.loads(ran.out)
    return found


def test_create_says_where_the_stream_is(run: Run, stream: str, url: str) -> None:
    assert run("create", stream).out == f"created {url}/v1/stream/{stream}\n"
    assert run("create", stream).out == f"found {url}/v1/stream/{stream}\n"


def test_create_tells_programs_whether_it_was_there(run: Run, stream: str) -> None:
    told = [json.loads(run("create", stream, "--json").out)["created"] for _ in range(2)]
    assert told == [True, False]


@pytest.mark.parametrize(
    "given, content_type",
    [("json", "application/json"), ("text", "text/plain"), ("binary", "application/octet-stream"), ("a/b", "a/b")],
)
def test_a_type_is_a_word_or_a_content_type(run: Run, stream: str, given: str, content_type: str) -> None:
    run("create", stream, "--type", given)
    assert facts(run, stream)["content_type"] == content_type


def test_a_stream_is_json_unless_said_otherwise(run: Run, stream: str) -> None:
    run("create", stream)
    assert facts(run, stream)["content_type"] == "application/json"


def test_create_sets_lifetime_and_retention(run: Run, stream: str) -> None:
    run("create", stream, "--expires-at", "2040-01-31T12:00:00Z", "--retention", "max-messages=5", "--closed")
    told = facts(run, stream)
    assert (told["expires_at"], told["retention"], told["closed"]) == ("2040-01-31T12:00:00Z", "max-messages=5", True)


def test_head_prints_a_line_for_each_fact_that_is_known(run: Run, stream: str) -> None:
    run("create", stream, "--ttl", "60")
    expected = {
        "stream": stream,
        "content type": "application/json",
        "offset": "0" * 16,
        "closed": "no",
        "ttl secs": "60",
    }
    lines = (line.split(":", 1) for line in run("head", stream).out.splitlines())
    assert {key: value.strip() for key, value in lines} == expected


def test_close_prints_the_final_offset(run: Run, stream: str) -> None:
    run("create", stream, "-t", "text")
    assert run("close", stream, "bye").out == "0000000000000003\n"
    assert facts(run, stream)["closed"] is True


@pytest.mark.parametrize("message", ["1,2", "", "nope"])
def test_close_takes_one_value_of_json_or_none(run: Run, stream: str, message: str) -> None:
    run("create", stream)
    ran = run("close", stream, message)
    assert (ran.code, "is not JSON" in ran.err) == (2, True)


def test_close_takes_any_bytes_of_text(run: Run, stream: str) -> None:
    run("create", stream, "-t", "text")
    assert run("close", stream, "\udcff").out == "0000000000000001\n"


def test_close_tells_programs(run: Run, stream: str) -> None:
    run("create", stream)
    expected = {"stream": stream, "offset": "0" * 16, "closed": True}
    assert json.loads(run("close", stream, "--json").out) == expected


def test_rm_deletes_several_streams_quietly(run: Run, stream: str) -> None:
    run("create", f"{stream}/1")
    run("create", f"{stream}/2")
    ran = run("rm", f"{stream}/1", f"{stream}/2")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert run("ls", stream).out == ""


def test_rm_goes_on_behind_a_stream_that_is_not_there_and_ends_with_3(run: Run, stream: str) -> None:
    run("create", stream)
    ran = run("rm", "nothing", stream, "--json")
    assert (ran.code, json.loads(ran.out)) == (3, {"stream": stream, "deleted": True})
    assert ran.err.startswith("everbrook: nothing: there is no stream at ")


def test_rm_by_force_does_not_mind(run: Run, stream: str) -> None:
    ran = run("rm", "--force", stream)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads(run("rm", "--force", stream, "--json").out) == {"stream": stream, "deleted": False}


def test_a_fork_begins_with_what_its_source_holds(run: Run, stream: str, url: str) -> None:
    run("create", stream)
    run("append", stream, "1", "2", "3")
    ran = run("fork", stream, f"{stream}/fork", "--offset", "2")
    assert ran.out == f"forked {url}/v1/stream/{stream}/fork at 0000000000000002\n"
    assert run("read", f"{stream}/fork").out == "1\n"


def test_a_fork_tells_programs_of_itself(run: Run, stream: str) -> None:
    run("create", stream)
    told = json.loads(run("fork", stream, f"{stream}/fork", "--json").out)
    assert (told["source"], told["stream"]) == (stream, f"{stream}/fork")


@pytest.mark.parametrize(
    "line, code, words",
    [
        (("head", "nothing"), 3, "there is no such stream: `everbrook ls` lists"),
        (("head", ""), 2, "the name of a stream must not be empty"),
        (("create", "s", "--ttl", "-1"), 2, "-1 is not in the range"),
        (("create", "s", "--expires-at", "soon"), 2, "'soon' is not a time such as"),
        (("create", "s", "--expires-at", "2030-01-01T00:00:00"), 2, "add Z for UTC"),
        (("create", "s", "--retention", "forever"), 1, "forever"),
        (("create", "a/../b"), 2, "a/../b"),
        (("fork", "nothing", "s"), 3, "`everbrook ls` lists the streams"),
        (("head", "s", "--url", "example.com"), 2, "must begin with http:// or https://"),
        (
            ("head", "s", "--url", "http://127.0.0.1:1"),
            4,
            "is the server running? set its address with --url or EVERBROOK_URL",
        ),
        (("rm",), 2, "STREAM"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(run: Run, line: tuple[str, ...], code: int, words: str) -> None:
    ran = run(*line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert ran.err.startswith("everbrook: ")
    assert words in ran.err


def test_a_stream_that_exists_otherwise_is_refused_with_1(run: Run, stream: str) -> None:
    run("create", stream)
    ran = run("create", stream, "--type", "text")
    assert (ran.code, ran.err) == (
        1,
        "everbrook: the stream exists with another content type: `everbrook head` shows how it is configured\n",
    )


def test_an_option_behind_the_command_wins_over_one_before_it(run: Run, stream: str, url: str) -> None:
    run("create", stream)
    assert run("--url", "http://127.0.0.1:1", "head", stream, "--url", url).code == 0
    assert run("--url", "http://127.0.0.1:1", "head", stream).code == 4


def test_streams_are_listed_by_name_one_a_line(run: Run, stream: str) -> None:
    for name in ("b", "a"):
        run("create", f"{stream}/{name}")
    assert run("ls", f"{stream}/").out == f"{stream}/a\n{stream}/b\n"


def test_a_long_list_is_a_table(run: Run, stream: str) -> None:
    run("create", stream)
    run("append", stream, "1")
    titles, row = run("ls", "-l", stream).out.splitlines()
    assert titles.split() == ["status", "content", "type", "bytes", "tail", "last", "write", "stream"]
    assert row.split()[:4] == ["open", "application/json", "2", "0000000000000002"]


def test_a_list_for_programs_is_a_line_for_each_stream(run: Run, stream: str) -> None:
    run("create", stream)
    [told] = [json.loads(line) for line in run("ls", stream, "--json").out.splitlines()]
    assert (told["stream"], told["status"], told["offset"], told["bucket"]) == (stream, "Open", "0" * 16, None)
