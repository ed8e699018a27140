"""``everbrook doctor``: one line for each thing that can be wrong, and what to do about it."""

import json
import socket
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from everbrook.cli.commands.machine_checks import Finding, check_clock, check_damage, check_programs, check_storage
from everbrook.cli.commands.server_checks import check_port
from everbrook.settings import load_settings
from tests.cli.conftest import Ran, Run
from tests.kit.damage import flip
from tests.kit.server_process import serving
from tests.kit.stores import journal_file, make_store, open_acid


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a process of its own, as its clock and its disk are not to be those that tests change."""
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield "http://{}:{}".format(*server.address)


pytestmark = pytest.mark.usefixtures("any_port")


def found(findings: Iterable[Finding]) -> dict[str, tuple[str, str]]:
    return {finding.check: (finding.state, finding.message) for finding in findings}


def findings(ran: Ran) -> dict[str, tuple[str, str]]:
    told = [json.loads(line) for line in ran.out.splitlines()]
    return {finding["check"]: (finding["state"], finding["message"]) for finding in told}


def test_a_sound_machine_has_a_line_for_each_check_and_exit_code_0(run: Run, url: str) -> None:
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    checks = [line[6:].split(":")[0] for line in ran.out.splitlines()]
    expected = ["versions", "programs", "clock", "settings", "storage", "disk space", "file system", "disk sync"]
    assert checks == [*expected, "open files", "port", "certificate", "policy", "server", "server's clock"]


def test_a_server_that_is_away_is_a_failure(run: Run) -> None:
    ran = run("doctor", "--json", "--url", "http://127.0.0.1:1")
    state, message = findings(ran)["server"]
    assert (ran.code, state) == (1, "fail")
    assert message.endswith("start one with `everbrook serve`, or set EVERBROOK_URL")


@pytest.mark.parametrize("given", ["nonsense", "http://[", "ftp://x"])
def test_a_url_that_is_none_is_a_failure(run: Run, given: str) -> None:
    assert findings(run("doctor", "--json", "--url", given))["server"][0] == "fail"


def test_a_wrong_setting_is_a_failure_and_the_server_is_asked_all_the_same(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_SERVR__PORT", "1")
    ran = run("doctor", "--json")
    told = findings(ran)
    assert (ran.code, told["settings"][0], told["server"][0]) == (1, "fail", "ok")
    assert "did you mean DS_SERVER__PORT?" in told["settings"][1]


def test_a_port_that_is_taken_is_a_failure(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = load_settings(environ={"DS_SERVER__PORT": str(other.getsockname()[1])})
        state, message = found(check_port(settings, timeout_secs=0.2))["port"]
    assert (state, "choose another with --port" in message) == ("fail", True)


def test_a_port_that_a_server_has_is_well(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_SERVER__PORT", url.rpartition(":")[2])
    assert findings(run("doctor", "--json"))["port"] == ("ok", f"a server is listening at {url}")


def test_a_password_of_the_url_is_not_printed(run: Run) -> None:
    ran = run("doctor", "--url", "http://somebody:hidden@127.0.0.1:1")
    assert ("hidden" in ran.out, "http://…@127.0.0.1:1" in ran.out) == (False, True)


@pytest.mark.parametrize("data_dir", ["taken", "taken/below"])
def test_a_file_where_the_store_would_be_is_a_failure(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, data_dir: str
) -> None:
    (folder / "taken").touch()
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", data_dir)
    state, message = findings(run("doctor", "--json"))["storage"]
    assert (state, "taken is not a folder" in message) == ("fail", True)


def test_a_check_that_fails_is_a_finding_and_the_others_are_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", "x" * 300)
    found = findings(run("doctor", "--json"))
    assert (found["storage"][0], "File name too long" in found["storage"][1]) == ("fail", True)
    assert "server" in found


@pytest.mark.parametrize("path, state", [("audit.log", "ok"), ("nowhere/audit.log", "fail"), (".", "fail")])
def test_the_file_of_the_audit_log_is_looked_at(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: str, state: str
) -> None:
    monkeypatch.setenv("DS_AUDIT__TO", "file")
    monkeypatch.setenv("DS_AUDIT__PATH", path)
    assert findings(run("doctor", "--json"))["audit log"][0] == state


def test_memory_is_a_warning(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_STORAGE__MODE", "memory")
    assert findings(run("doctor", "--json"))["storage"][0] == "warn"


@pytest.mark.parametrize("free, state", [(10, "fail"), (2**29, "warn"), (2**40, "ok")])
def test_a_full_disk_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": free}))
    assert findings(run("doctor", "--json"))["disk space"][0] == state


@pytest.mark.parametrize(
    "kind, mode, state",
    [("nfs4", "acid", "fail"), ("nfs4", "file-durable", "warn"), ("tmpfs", "acid", "warn"), ("ext4", "acid", "ok")],
)
def test_a_file_system_is_judged(folder: Path, kind: str, mode: str, state: str) -> None:
    (folder / "mounts").write_text(f"proc /proc proc rw\nsome / ext4 rw\nother {folder} {kind} rw\n")
    settings = load_settings(environ={"DS_STORAGE__MODE": mode})
    assert found(check_storage(settings, mounts=folder / "mounts"))["file system"][0] == state


def test_a_slow_disk_is_a_warning(folder: Path) -> None:
    settings = load_settings(environ={"DS_STORAGE__MODE": "acid"})
    assert found(check_storage(settings, synced_ms=lambda _place: 80.0))["disk sync"] == (
        "warn",
        "80.0 ms: each append waits for it; a faster disk would help",
    )


def test_a_clock_that_is_wrong_is_a_warning(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    state, message = findings(run("doctor", "--json"))["server's clock"]
    assert (state, "synchronise both (NTP)" in message) == ("warn", True)


def test_a_time_that_can_not_be_read_is_none(run: Run) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def date_time_string(self, _timestamp: float | None = None) -> str:
            return "noon"

        def log_message(self, *_args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        found = findings(run("doctor", "--json", "--url", f"http://127.0.0.1:{server.server_port}"))
        thread.join()
    assert (found["server"][0], "server's clock" in found) == ("warn", False)


@pytest.mark.parametrize("state, told", [(0, "ok"), (5, "warn")])
def test_it_is_told_whether_something_keeps_the_clock_right(state: int, told: str) -> None:
    assert found(check_clock(lambda: state))["clock"][0] == told


def test_programs_that_are_missing_are_named() -> None:
    assert found(check_programs({"Envoy": ("no-such-program",), "Python": ("sys",)}))["programs"] == (
        "ok",
        "Python found; no Envoy: `everbrook up` needs the extra stack",
    )


def test_nothing_is_left_behind(run: Run, folder: Path) -> None:
    run("doctor")
    assert list(folder.iterdir()) == []


# Stores


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that a killed server left where the settings keep streams."""
    (folder / "data").mkdir()
    make_store(folder).rename(folder / "data" / "acid")
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", str(folder / "data"))
    return folder / "data" / "acid"


def stores_of(folder: Path) -> list[tuple[str, str]]:
    settings = load_settings(environ={"DS_STORAGE__DATA_DIR": str(folder / "data")})
    return [(finding.state, finding.message) for finding in check_damage(settings)]


def test_a_store_without_damage_is_well(folder: Path, store: Path) -> None:
    assert stores_of(folder) == [("ok", f"no damage is known in {store}")]


def test_a_store_in_use_is_well(folder: Path, store: Path) -> None:
    storage = open_acid(store)
    [(state, message)] = stores_of(folder)
    storage.close()
    assert state == "ok"
    assert "is in use" in message


def test_damaged_streams_are_a_warning_that_names_them(folder: Path, store: Path) -> None:
    path = journal_file(store)
    flip(path, path.read_bytes().index(b"again"))
    open_acid(store).close()
    (state, message), (_, advice) = stores_of(folder)
    assert state == "warn"
    assert f"{store}: stream 'text' is readable up to offset 307205 of 307205: journal/" in message
    assert advice.endswith(f"`everbrook check {store}` lists the damage, `everbrook repair {store}` repairs it")


def test_a_store_that_takes_no_changes_is_a_failure(run: Run, folder: Path, store: Path) -> None:
    journal_file(store).unlink()
    open_acid(store).close()
    [(state, message)] = stores_of(folder)
    assert state == "fail"
    assert f"{store} takes no changes: a part of the journal is lost" in message
    assert run("doctor").code == 1


def test_a_base_that_can_not_be_read_is_a_failure(folder: Path, store: Path) -> None:
    (store / "base" / "data.mdb").write_bytes(b"")
    [(state, message)] = stores_of(folder)
    assert state == "fail"
    assert "base/data.mdb can't be read: it is empty" in message
