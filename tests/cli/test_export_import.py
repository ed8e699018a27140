"""``everbrook export`` and ``everbrook import``: the same streams on another server, of whatever storage mode."""

import json
import subprocess
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from everbrook import Client, Retry, Unreachable
from everbrook.cli.commands.import_ import import_streams
from tests.cli.archives import contents, fill, lines_of, running_in
from tests.cli.conftest import Run
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import Fault, NeverSent, Sound
from tests.kit.faults.proxy import Proxy
from tests.kit.server_process import EVERBROOK


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with streams of every kind."""
    with running_in(tmp_path_factory.mktemp("source"), "acid") as url:
        fill(url)
        yield url


@pytest.fixture(params=["memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server that has nothing yet."""
    with running_in(tmp_path / "target", request.param) as url:
        yield url


@pytest.fixture
def archive(run: Run, source: str, folder: Path) -> Path:
    """Everything that the source has."""
    ran = run("export", "--all", "--url", source, "-o", "archive")
    assert ran.out == "exported 7 streams with 3018 messages to archive\n", ran.err
    return folder / "archive"


@pytest.mark.parametrize("target", ["memory", "file-durable", "file-fast", "acid"], indirect=True)
def test_everything_arrives_in_every_storage_mode(run: Run, source: str, target: str, archive: Path) -> None:
    ran = run("import", "archive", "--url", target)
    assert ran.out == "imported 7 streams, 7 of them new, and appended 3018 messages\n", ran.err
    assert contents(target) == contents(source)


def test_an_import_that_is_run_again_changes_nothing(run: Run, target: str, archive: Path) -> None:
    run("import", "archive", "--url", target)
    before = contents(target)
    told = json.loads(run("import", "archive", "--verify", "--json", "--url", target).out)
    assert told == {"streams": 7, "created": 0, "messages": 0, "expired": 0, "failed": 0}
    assert contents(target) == before


def test_an_import_to_where_it_came_from_finds_everything(run: Run, source: str, archive: Path) -> None:
    told = json.loads(run("import", "archive", "--verify", "--json", "--url", source).out)
    assert told == {"streams": 7, "created": 0, "messages": 0, "expired": 0, "failed": 0}


def test_offsets_are_the_same_where_nothing_was_cut(run: Run, source: str, target: str, archive: Path) -> None:
    run("import", "archive", "--url", target)
    with Client(source) as from_, Client(target) as to:
        assert to.stream("values").head().offset == from_.stream("values").head().offset
        assert (from_.stream("cut").head().earliest_offset, to.stream("cut").head().earliest_offset) == (
            "0" * 14 + "10",
            None,
        )


def test_a_fork_is_a_stream_of_its_own(archive: Path) -> None:
    [fork] = [line for line in lines_of(archive) if line.get("stream") == "fork"]
    assert fork["tail_offset"] == "0000000000000020"
    assert "forked" not in json.dumps(fork)


def test_a_message_has_its_offset_and_time(archive: Path) -> None:
    message = next(line for line in lines_of(archive) if line.get("value") == {"n": 1, "text": "é\n"})
    assert set(message) == {"offset", "time_ms", "value"}
    assert len(message["offset"]) == 16


@pytest.mark.parametrize(
    "chosen, streams",
    [
        (["values", "binary"], ["values", "binary"]),
        (["--prefix", "some/"], ["some/text"]),
        (["--prefix", ""], ["binary", "cut", "empty", "fork", "some/text", "values"]),
        (["--bucket", "agents"], ["user 1"]),
        (["--bucket", "agents", "user 1"], ["user 1"]),
    ],
)
def test_streams_are_chosen(run: Run, source: str, chosen: list[str], streams: list[str]) -> None:
    lines = map(json.loads, run("export", *chosen, "--url", source).out.splitlines())
    assert [line["stream"] for line in lines if "stream" in line] == streams


def test_a_file_that_is_there_is_not_touched(run: Run, source: str, archive: Path) -> None:
    before = archive.read_bytes()
    ran = run("export", "--all", "--url", source, "-o", "archive")
    assert (ran.code, "--resume continues it, --force replaces it" in ran.err) == (2, True)
    assert archive.read_bytes() == before


def test_force_replaces_a_file(run: Run, source: str, archive: Path) -> None:
    run("export", "empty", "--url", source, "-o", "archive", "--force")
    assert [line.get("stream") for line in lines_of(archive)] == [None, "empty", None]


@pytest.mark.parametrize("part", [0.001, 0.01, 0.3, 0.6, 0.99])
def test_an_export_goes_on_from_any_byte(run: Run, source: str, archive: Path, part: float) -> None:
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * part)])
    assert run("export", "--all", "--url", source, "-o", "archive", "--resume").code == 0
    assert sorted(set(archive.read_bytes().splitlines())) == sorted(set(whole.splitlines()))


def test_a_stream_that_was_made_anew_is_exported_anew(run: Run, target: str, folder: Path) -> None:
    run("create", "s", "--url", target)
    run("append", "s", "1", "2", "--url", target)
    run("export", "s", "--url", target, "-o", "archive")
    lines = (folder / "archive").read_bytes().splitlines(keepends=True)
    (folder / "archive").write_bytes(b"".join(lines[:3]))
    run("rm", "s", "--url", target)
    run("create", "s", "--url", target)
    run("append", "s", "8", "9", "--url", target)
    run("export", "s", "--url", target, "-o", "archive", "--resume")
    assert [line["value"] for line in lines_of(folder / "archive") if "value" in line] == [8, 9]


def test_a_bucket_is_in_the_archive_though_the_stream_under_way_has_gone(run: Run, target: str, folder: Path) -> None:
    for name in ("s", "z"):
        run("create", name, "--url", target)
        run("append", name, "1", "2", "--url", target)
    run("bucket", "create", "late", "--url", target)
    run("create", "-b", "late", "u", "--url", target)
    run("export", "--prefix", "", "--url", target, "-o", "archive")
    (folder / "archive").write_bytes(b"".join((folder / "archive").read_bytes().splitlines(keepends=True)[:-1]))
    run("rm", "z", "--url", target)
    assert run("export", "--all", "--url", target, "-o", "archive", "--resume").code == 0
    lines = lines_of(folder / "archive")
    assert [line.get("stream") or line["bucket"] for line in lines if "stream" in line or "bucket" in line] == [
        "s",
        "late",
        "u",
    ]


def test_a_whole_stream_that_was_made_anew_is_told_of(run: Run, target: str) -> None:
    run("create", "s", "--url", target)
    run("export", "s", "--url", target, "-o", "archive")
    run("rm", "s", "--url", target)
    run("create", "s", "--url", target)
    ran = run("export", "s", "--url", target, "-o", "archive", "--resume")
    assert (ran.code, "s was re-created since it was exported: export it to another file" in ran.err) == (1, True)


def test_pretty_json_is_the_same_in_one_line(run: Run, target: str) -> None:
    run("create", "s", "--url", target)
    run("append", "s", '{"a":\n 1}', "--url", target)
    run("export", "s", "--url", target, "-o", "archive")
    assert run("import", "archive", "--verify", "--url", target).code == 0


@pytest.mark.parametrize("message, code", [("XX", 1), ("bb", 0)])
def test_what_somebody_else_appends_is_compared(target: str, folder: Path, message: str, code: int) -> None:
    lines = [
        {"stream": "s", "content_type": "text/plain", "tail_offset": f"{6:016}", "created_at_ms": 1},
        *({"offset": f"{2 * n:016}", "time_ms": 1, "text": text} for n, text in enumerate(["aa", "bb", "cc"])),
        {"end": f"{6:016}", "messages": 3},
    ]
    archive = [json.dumps(line).encode() + b"\n" for line in lines]
    with (
        Client(target) as client,
        subprocess.Popen(
            [EVERBROOK, "import", "--url", target], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"".join(archive[:2]))
        process.stdin.flush()
        stream = client.stream("s", content_type="text/plain")
        until = time.monotonic() + 30
        while time.monotonic() < until and not (stream.exists() and stream.head().offset == f"{2:016}"):
            time.sleep(0.05)
        stream.append(message)
        complaint = process.communicate(b"".join(archive[2:]), timeout=30)[1]
        assert (process.returncode, b"s differs from the archive in the message at" in complaint) == (code, bool(code))
        assert stream.read().text() == ("aaXX" if code else "aabbcc")


@pytest.mark.parametrize("lines", [3, 500, 1002])
def test_an_import_goes_on_behind_what_is_there(run: Run, source: str, target: str, archive: Path, lines: int) -> None:
    whole = archive.read_bytes()
    archive.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
    ran = run("import", "archive", "--url", target)
    assert (ran.code, "the archive has only the beginning of " in ran.err) == (1, True)
    archive.write_bytes(whole)
    assert run("import", "archive", "--url", target).code == 0
    assert contents(target) == contents(source)


@pytest.mark.parametrize(
    "written, words",
    [
        (["9"] * 7, "cut has more messages on the server than in the archive"),
        (["9"] * 4, "cut differs from the archive in the message at 0000000000000000"),
        (['"x"'] * 2, "cut differs from the archive in the message at 0000000000000000"),
    ],
)
def test_a_stream_that_differs_is_told_of_and_left_alone(
    run: Run, target: str, archive: Path, written: list[str], words: str
) -> None:
    run("create", "cut", "--url", target)
    run("append", "cut", *written, "--url", target)
    ran = run("import", "archive", "--url", target, "--json")
    assert (ran.code, json.loads(ran.out)["streams"], words in ran.err) == (1, 6, True), ran.err
    assert run("read", "cut", "--url", target).out.splitlines() == written


def test_a_stream_of_another_configuration_is_told_of(run: Run, target: str, archive: Path) -> None:
    run("create", "values", "--type", "text", "--url", target)
    ran = run("import", "archive", "--url", target)
    assert (ran.code, "values: the stream exists with another content type" in ran.err) == (1, True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[str]:
    """A server that takes ten bytes at once."""
    with running_in(tmp_path / "small", limits__max_append_bytes=10) as url:
        yield url


def archive_of(folder: Path, **streams: list[str]) -> None:
    """An archive of JSON streams, which have these messages."""
    lines: list[dict[str, object]] = []
    for name, messages in streams.items():
        ends = [0, *accumulate(len(message) + 1 for message in messages)]
        of_json = {"content_type": "application/json", "created_at_ms": 1}
        lines.append({"stream": name, "tail_offset": f"{ends[-1]:016}", **of_json})
        lines += [
            {"offset": f"{at:016}", "time_ms": 1, "value": json.loads(message)}
            for at, message in zip(ends, messages, strict=False)
        ]
        lines.append({"end": f"{ends[-1]:016}", "messages": len(messages)})
    (folder / "archive").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_stream_that_the_server_refuses_is_named_and_the_others_are_imported(
    run: Run, small: str, folder: Path
) -> None:
    archive_of(folder, a=["1"], b=["2", '"much too long"', "3"], c=["4"])
    ran = run("import", "archive", "--url", small)
    assert (ran.code, "b is refused from 0000000000000002 on: " in ran.err) == (1, True), ran.err
    assert ran.out == "imported 2 streams, 2 of them new, and appended 3 messages; not imported as a whole: 1\n"
    assert [run("read", name, "--url", small).out for name in "abc"] == ["1\n", "2\n", "4\n"]


def test_what_is_too_much_at_once_is_appended_bit_by_bit(run: Run, small: str, folder: Path) -> None:
    archive_of(folder, s=[str(number) for number in range(100)])
    assert run("import", "archive", "--url", small).code == 0
    assert run("read", "s", "--url", small).out.split() == [str(number) for number in range(100)]


def test_a_refused_stream_goes_on_where_it_was_refused(run: Run, small: str, target: str, folder: Path) -> None:
    archive_of(folder, s=["1", '"much too long"', "3"])
    run("import", "archive", "--url", small)
    archive_of(folder, s=["1", "2", "3"])
    ran = run("import", "archive", "--url", small)
    assert (ran.code, ran.out) == (0, "imported 1 streams, 0 of them new, and appended 2 messages\n")


def unreachable_b(request: Request) -> Fault:
    return NeverSent() if request.target.endswith("/b") else Sound()


def test_an_import_that_ends_early_says_how_far_it_came(
    target: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive_of(folder, a=["1"], b=["2", "3"])
    with (
        Proxy(int(target.rpartition(":")[2]), unreachable_b) as proxy,
        Client(proxy.origin, retry=Retry(max_attempts=1)) as client,
        pytest.raises(Unreachable),
    ):
        import_streams(client, "archive", verify=False)
    told = "imported 1 streams, 1 of them new, and appended 1 messages; it stopped in b: run it again to continue there"
    assert told in capsys.readouterr().err


def test_a_stream_that_has_expired_is_left_out(run: Run, target: str, folder: Path) -> None:
    line = {"stream": "s", "content_type": "a/b", "tail_offset": "0" * 16, "created_at_ms": 1}
    expired = json.dumps(line | {"expires_at": "2020-01-01T00:00:00Z"})
    (folder / "archive").write_text(f'{expired}\n{{"end":"0000000000000000","messages":0}}\n')
    ran = run("import", "archive", "--url", target)
    assert (ran.code, "s expired at 2020-01-01T00:00:00Z: it is not imported" in ran.err) == (0, True)
    assert run("ls", "--url", target).out == ""


STREAM = '{"stream":"s","content_type":"application/json","tail_offset":"0000000000000002","created_at_ms":1}\n'
ONE = '{"offset":"0","value":1}\n'


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "archive is empty"),
        ("nope\n", "archive: line 1: JSON is malformed"),
        ('{"archive":1}\n{"hello":1}\n', "archive: line 2: none of the keys"),
        ('{"archive":7}\n', "line 1: the archive is of version 7"),
        ('{"archive":1}', "line 1: the archive ends in the middle of a line"),
        ('{"offset":"0","value":1}\n', "line 1: no line before it names its stream"),
        (STREAM + '{"offset":"0","text":"1"}\n', "line 2: a message of s, which is application/json, has no value"),
        (STREAM + '{"offset":"1","value":1}\n', "line 2: a message at 0000000000000001 follows one that ends at 0"),
        (STREAM + '{"end":"0000000000000002","messages":1}\n', "line 2: s ends at 0000000000000000, not where"),
        (STREAM + ONE + '{"end":"0000000000000002","messages":7}\n', "s has 1 messages, but its last line says 7"),
        (STREAM.replace('"s"', '"/s"'), "the name of a stream must be its path below the stream root, got '/s'"),
        (STREAM.replace('"s"', '"s","bucket":"b"').replace('"s"', '"HTTP://h/s"'), "got 'HTTP://h/s'"),
    ],
)
def test_what_is_no_archive_is_one_line_and_exit_code_2(
    run: Run, target: str, folder: Path, text: str, words: str
) -> None:
    (folder / "archive").write_text(text)
    ran = run("import", "archive", "--url", target)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err


def test_an_archive_does_not_say_which_server_it_is_imported_to(run: Run, target: str, folder: Path) -> None:
    (folder / "archive").write_text(STREAM.replace('"s"', f'"{target}/v1/stream/s"'))
    ran = run("import", "archive", "--url", target)
    assert (ran.code, "line 1: the name of a stream must be its path below the stream root" in ran.err) == (2, True)
    assert run("ls", "--url", target).out == ""


@pytest.mark.parametrize(
    "line, code, words",
    [
        ((), 2, "nothing to export"),
        (("s", "--all"), 2, "name streams, or pass --prefix or --all, not both"),
        (("--all", "--bucket", "b"), 2, "--all can't be combined"),
        (("s", "--resume"), 2, "--resume and --force need a file"),
        (("s", "-o", "no/folder/f"), 2, "can't be written"),
        (("nothing",), 3, "there is no such stream"),
        (("--bucket", "nobucket"), 3, "there is no bucket 'nobucket'"),
    ],
)
def test_a_wrong_export_is_one_line(run: Run, source: str, line: tuple[str, ...], code: int, words: str) -> None:
    ran = run("export", *line, "--url", source)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert words in ran.err


def test_resume_leaves_a_file_that_is_no_archive_alone(run: Run, source: str, folder: Path) -> None:
    (folder / "diary").write_text("Dear diary\n")
    ran = run("export", "--all", "--url", source, "-o", "diary", "--resume")
    assert (ran.code, "diary is not an archive that can be continued: line 1" in ran.err) == (2, True)
    assert (folder / "diary").read_text() == "Dear diary\n"
