"""`everbrook backup` and `restore`: what is restored is what was there, and a second backup copies what is new."""

import errno
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.cli.exits import INTERRUPTED
from everbrook.storage import Asked, BackupError, FileCopy, Piece, next_name
from tests.cli.archives import contents, fill, running_in
from tests.cli.backups import MODES, back_up, line, ran, restore
from tests.cli.conftest import Run
from tests.kit.server_thread import eventually

WELL_BEFORE_ITS_END_SECS = 5


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> str:
    """The default one, for what is the same in all of them."""
    return str(getattr(request, "param", "acid"))


every_mode = pytest.mark.parametrize("mode", MODES, indirect=True)


@pytest.fixture
def url(tmp_path: Path, mode: str) -> Iterator[str]:
    with running_in(tmp_path / "source", mode) as url:
        fill(url)
        yield url


def grow(url: str, stream: str, message: bytes) -> None:
    with Client(url) as client:
        client.stream(stream).create(content_type="text/plain")
        client.stream(stream).append(message)


@every_mode
def test_what_is_restored_is_what_was_there(url: str, mode: str, tmp_path: Path) -> None:
    expected = contents(url)
    back_up(url, tmp_path / "dest")
    grow(url, "later", b"not in it")
    facts = restore(tmp_path / "dest", tmp_path / "target" / ".." / "restored")
    with running_in(tmp_path / "other", mode) as empty:
        assert contents(empty) != expected
    (tmp_path / "third").mkdir()
    (tmp_path / "restored").rename(tmp_path / "third" / "data")
    with running_in(tmp_path / "third", mode) as restored:
        assert contents(restored) == expected
    assert facts["streams"] >= len(expected)


@every_mode
def test_a_second_backup_copies_what_is_new_and_the_first_stays(url: str, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    grow(url, "big", os.urandom(3_000_000))
    first = back_up(url, dest)
    grow(url, "small", b"new")
    second = back_up(url, dest)
    assert first["copied_bytes"] == first["bytes"] > 3_000_000
    assert second["copied_bytes"] < 600_000
    assert (dest / "latest").resolve() == Path(second["backup"]).resolve()
    assert restore(Path(first["backup"]), tmp_path / "one")["streams"] + 1 == restore(dest, tmp_path / "two")["streams"]


def test_so_many_backups_are_kept_as_were_asked_for(url: str, tmp_path: Path) -> None:
    backups = [back_up(url, tmp_path / "dest", "--keep", "2")["backup"] for _ in range(4)]
    left = sorted(str(path) for path in (tmp_path / "dest").iterdir() if path.name[0].isdigit())
    assert left == backups[2:]
    assert restore(tmp_path / "dest", tmp_path / "restored", "--at", Path(backups[2]).name)["backup"] == backups[2]


def test_a_block_that_has_rotted_in_an_earlier_backup_is_found(url: str, tmp_path: Path) -> None:
    grow(url, "big", os.urandom(3_000_000))
    first = Path(back_up(url, tmp_path / "dest")["backup"])
    large = max((path for path in first.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    with large.open("r+b") as file:
        file.seek(1_000_000)
        file.write(bytes(1000))
    refused = ran("restore", tmp_path / "dest", tmp_path / "restored")
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    assert not (tmp_path / "restored").exists()
    back_up(url, tmp_path / "dest", "--full")
    restore(tmp_path / "dest", tmp_path / "restored")


@every_mode
def test_a_block_that_has_rotted_is_not_handed_on_to_the_next_backup(url: str, tmp_path: Path) -> None:
    grow(url, "big", os.urandom(1_000_000))
    first = Path(back_up(url, tmp_path / "dest")["backup"])
    for path in (first / "data").rglob("*"):
        if path.is_file() and path.stat().st_size:
            rot(path)
    again = back_up(url, tmp_path / "dest")
    assert again["copied_bytes"] > 0
    restore(tmp_path / "dest", tmp_path / "restored")


def rot(path: Path) -> None:
    """Change a byte, and nothing else that can be seen."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def test_a_clock_that_was_set_back_costs_no_backup(url: str, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    Path(back_up(url, dest)["backup"]).rename(dest / "20991231T000000.000Z")
    grow(url, "later", b"since")
    second = ran("backup", url, dest, "--keep", "1")
    assert "a clock was set back" in second.stdout
    third = back_up(url, dest, "--keep", "1")
    (left,) = [path for path in dest.iterdir() if path.name[0].isdigit()]
    assert str(left) == third["backup"]
    assert (dest / "latest").resolve() == left
    assert restore(dest, tmp_path / "restored")["backup"] == str(left)


def test_a_moment_is_found_though_names_went_on_increasing(url: str, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    Path(back_up(url, dest)["backup"]).rename(dest / "20991231T000000.000Z")
    second = back_up(url, dest)["backup"]
    moment = Path(second).name.partition("-")[0]
    assert moment == "20991231T000000.000Z"
    assert restore(dest, tmp_path / "restored", "--at", "2098")["backup"] == second


def test_the_eleventh_backup_of_one_moment_comes_after_the_tenth() -> None:
    names = ["20261116T043215.123Z"]
    for _ in range(11):
        names.append(next_name(0, names[-1]))
    assert names[-1] == "20261116T043215.123Z-11"


@every_mode
def test_a_stopped_store_is_backed_up_without_its_server(tmp_path: Path, mode: str) -> None:
    with running_in(tmp_path / "source", mode) as url:
        fill(url)
        expected = contents(url)
        busy = ran("backup", "--data-dir", tmp_path / "source" / "data", tmp_path / "dest")
    assert "in use by another server" in busy.stderr
    done = ran("backup", "--data-dir", tmp_path / "source" / "data", tmp_path / "dest", "--json")
    assert done.returncode == 0, done.stderr
    (tmp_path / "other").mkdir()
    restore(tmp_path / "dest", tmp_path / "other" / "data")
    with running_in(tmp_path / "other", mode) as restored:
        assert contents(restored) == expected
    assert json.loads(done.stdout)["checked"]


def test_backups_go_where_nothing_else_is(url: str, tmp_path: Path) -> None:
    (tmp_path / "dest").mkdir()
    (tmp_path / "dest" / "letters").write_text("dear")
    refused = ran("backup", url, tmp_path / "dest")
    assert (refused.returncode, "other files than backups: letters" in refused.stderr) == (1, True)


def test_a_full_disk_is_said_and_leaves_no_backup(
    url: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path / "dest"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        failed = run("backup", url, str(tmp_path / "dest"))
    assert (failed.code, "No space left on device" in failed.err) == (1, True)
    assert [path.name for path in (tmp_path / "dest").iterdir() if not path.name.startswith(".")] == []


def test_a_backup_takes_its_time_if_it_is_told_to(url: str, tmp_path: Path) -> None:
    grow(url, "large", b"x" * 3_000_000)
    assert back_up(url, tmp_path / "dest", "--max-rate", "2")["secs"] >= 1.5
    assert restore(tmp_path / "dest", tmp_path / "restored")["stream_bytes"] > 3_000_000


def test_a_slow_backup_can_be_interrupted_and_goes_on(url: str, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    for number in range(3):
        grow(url, f"large-{number}", b"%d" % number * 9_000_000)
    with subprocess.Popen(line("backup", url, dest, "--max-rate", "2"), stderr=subprocess.PIPE) as process:
        assert eventually(lambda: any(path.is_file() for path in dest.rglob(".partial/data/*/*")))
        process.send_signal(signal.SIGINT)
        assert process.wait(WELL_BEFORE_ITS_END_SECS) == INTERRUPTED
    assert [path.name for path in dest.iterdir() if not path.name.startswith(".")] == []
    back_up(url, dest)
    assert restore(dest, tmp_path / "restored")["stream_bytes"] > 27_000_000


def test_a_password_of_the_url_is_neither_kept_nor_printed(url: str, tmp_path: Path) -> None:
    known = url.replace("//", "//somebody:hidden@")
    back_up(known, tmp_path / "dest")
    refused = ran("backup", "http://somebody:hidden@127.0.0.1:1", tmp_path / "dest")
    manifest = (tmp_path / "dest" / "latest" / "backup.json").read_text()
    assert ("hidden" in manifest + refused.stderr, "//…@" in manifest) == (False, True)


def test_memory_is_told_to_export(tmp_path: Path) -> None:
    with running_in(tmp_path / "source") as url:
        refused = ran("backup", url, tmp_path / "dest")
    assert (refused.returncode, "everbrook export" in refused.stderr) == (1, True)


def test_a_server_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    refused = ran("backup", "http://127.0.0.1:1", tmp_path / "dest")
    assert (refused.returncode, "is the server running?" in refused.stderr) == (4, True)


@pytest.mark.parametrize(
    "args",
    [
        ("a", "b"),
        ("http://x", "a", "b"),
        ("--data-dir", "x", "http://x", "a"),
        ("--max-rate", "nan", "a"),
        ("--max-rate", "inf", "a"),
        ("--max-rate", "0", "a"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(run: Run, args: tuple[str, ...]) -> None:
    assert run("backup", *args).code == 2


@every_mode
def test_what_a_killed_run_has_copied_is_not_copied_again(url: str, tmp_path: Path) -> None:
    grow(url, "big", os.urandom(3_000_000))
    dest = tmp_path / "dest"
    first = Path(back_up(url, dest)["backup"])
    shutil.move(first, dest / ".partial")
    (dest / ".partial" / "backup.json").unlink()
    (dest / "latest").unlink()
    (dest / ".partial" / "data" / "left.log").write_bytes(b"of another time")
    assert back_up(url, dest)["copied_bytes"] < 600_000
    assert restore(dest, tmp_path / "restored")


def test_a_file_of_which_a_killed_run_has_a_part_is_gone_on_with(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(url, "big", os.urandom(3_000_000))
    taken: list[Asked] = []
    take = FileCopy.take

    def until_killed(copy: FileCopy, asked: Asked, piece: Piece) -> None:
        if len(taken) == 20:
            raise BackupError("killed")
        taken.append(asked)
        take(copy, asked, piece)

    with monkeypatch.context() as patched:
        patched.setattr(FileCopy, "take", until_killed)
        assert ran("backup", url, tmp_path / "dest").returncode == 1
    kept = sum(asked.size for asked in taken)
    again = back_up(url, tmp_path / "dest")
    assert kept > 2_000_000
    # Blocks that the server has written to since are other ones.
    assert again["bytes"] - again["copied_bytes"] > kept - 600_000
    assert restore(tmp_path / "dest", tmp_path / "restored")
    assert not list((tmp_path / "dest").rglob("*.copying"))


def test_a_run_killed_before_its_last_step_is_in_nobodys_way(url: str, tmp_path: Path) -> None:
    back_up(url, tmp_path / "dest")
    (tmp_path / "dest" / ".partial-latest").symlink_to("nowhere")
    (tmp_path / "dest" / "lost+found").mkdir()
    second = back_up(url, tmp_path / "dest")["backup"]
    assert (tmp_path / "dest" / "latest").resolve() == Path(second)


def test_what_has_secrets_is_its_owners_alone(url: str, tmp_path: Path) -> None:
    back_up(url, tmp_path / "dest")
    restore(tmp_path / "dest", tmp_path / "restored")
    for store in ("source/data/acid", "restored", "restored/acid"):
        assert (tmp_path / store).stat().st_mode & 0o077 == 0
    files = [path for path in (tmp_path / "restored").rglob("*") if path.is_file()]
    assert [path for path in files if path.stat().st_mode & 0o077] == []
