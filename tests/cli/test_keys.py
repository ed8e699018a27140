"""``everbrook keys``: what signs webhooks, listed and rotated, with and without a server (§6.5)."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from everbrook.server.assembly import open_storage
from everbrook.settings import load_layers
from tests.cli.archives import running_in
from tests.cli.conftest import Ran, Run
from tests.kit.server_process import ServerProcess, serving
from tests.kit.wire import Wire

JWKS = "/v1/stream/__ds/jwks.json"
DURABLE = ["acid", "file-fast", "file-durable"]


def published(wire: Wire) -> list[str]:
    keys: list[dict[str, str]] = msgspec.json.decode(wire.get(JWKS).body)["keys"]
    return [key["kid"] for key in keys]


def signing(ran: Ran) -> str:
    """The key that a list shows first."""
    found = re.match(r"(ds_\S+)  signs\n", ran.out)
    assert found, ran.out
    return found[1]


@pytest.fixture(params=DURABLE)
def used(request: pytest.FixtureRequest, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that has a key, in each mode that keeps one. Gives its name."""
    monkeypatch.setenv("DS_STORAGE__MODE", request.param)
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", "data")
    make_store()
    return run("keys", "rotate").out.split()[4]


def make_store() -> None:
    """Make the store that the environment names, as a server does when it first starts."""
    open_storage(load_layers().settings).close()


def test_a_list_names_the_key_that_signs(run: Run, used: str) -> None:
    assert run("keys", "list").out == f"{used}  signs\n"


def test_a_rotation_makes_a_new_key_and_keeps_the_old_one_published(run: Run, used: str) -> None:
    ran = run("keys", "rotate")
    listed = run("keys", "list")
    assert ran.out == f"webhooks are signed with {signing(listed)} from now on\n"
    assert signing(listed) != used
    assert re.search(rf"^{used}  published until \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", listed.out, re.MULTILINE)


def test_a_server_that_starts_after_a_rotation_publishes_both(run: Run, used: str, folder: Path) -> None:
    run("keys", "rotate")
    new = signing(run("keys", "list"))
    mode = os.environ["DS_STORAGE__MODE"]
    with running_in(folder, mode) as url, Wire(("127.0.0.1", int(url.rpartition(":")[2]))) as wire:
        assert published(wire) == [new, used]


def test_an_old_key_goes_when_the_overlap_is_over(run: Run, used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_WEBHOOKS__KEY_OVERLAP_SECS", "1")
    run("keys", "rotate")
    monkeypatch.setattr("time.time_ns", lambda: 10**19)
    assert len(run("keys", "list").out.splitlines()) == 1


def test_the_flags_name_a_store_too(run: Run, used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mode = os.environ["DS_STORAGE__MODE"]
    monkeypatch.setenv("DS_STORAGE__MODE", "memory")
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", "elsewhere")
    assert signing(run("keys", "list", "--storage", mode, "--data-dir", "data")) == used


@pytest.mark.parametrize("command", ["list", "rotate"])
def test_a_store_that_is_not_there_is_not_made(run: Run, folder: Path, command: str) -> None:
    ran = run("keys", command, "--data-dir", "missing")
    assert (ran.code, ran.err) == (1, "everbrook: there is no store in missing/acid\n")
    assert not (folder / "missing").exists()


@pytest.mark.parametrize("command", ["list", "rotate"])
def test_memory_has_no_store(run: Run, command: str) -> None:
    ran = run("keys", command, "--storage", "memory")
    assert (ran.code, "storage memory has no store" in ran.err) == (1, True)


def test_a_store_that_never_signed_has_no_keys_and_a_rotation_makes_the_first(run: Run) -> None:
    make_store()
    assert run("keys", "list").out == "there are no keys yet: the first subscription makes one\n"
    kid = run("keys", "rotate").out.split()[4]
    assert run("keys", "list").out == f"{kid}  signs\n"


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    """A server that is using its store."""
    with serving(folder, DS_STORAGE__MODE="acid", DS_STORAGE__DATA_DIR="data") as running:
        yield running


def test_a_server_that_has_the_store_rotates_and_both_say_so(server: ServerProcess, run: Run) -> None:
    with server.connect() as wire:
        (old,) = published(wire)
        ran = run("keys", "rotate", "--data-dir", "data")
        pid = server.process.pid
        assert ran.out == f"asked the server (process {pid}) to rotate; its output names the new key\n"
        assert server.process.stdout is not None
        said = server.process.stdout.readline()
        new, kept = published(wire)
    assert (said, kept) == (f"everbrook signs webhooks with {new} from now on\n", old)
    assert new != old


def test_a_rotation_of_a_server_outlives_it(server: ServerProcess, run: Run) -> None:
    run("keys", "rotate", "--data-dir", "data")
    assert server.process.stdout is not None
    new = server.process.stdout.readline().split()[4]
    server.process.kill()
    server.process.wait()
    assert signing(run("keys", "list", "--data-dir", "data")) == new


def test_the_keys_of_a_store_in_use_are_asked_of_its_server(server: ServerProcess, run: Run) -> None:
    ran = run("keys", "list", "--data-dir", "data")
    assert ran.code == 1
    assert ran.err.startswith(f"everbrook: data/acid is in use by process {server.process.pid}; ")


HOLDER = """
import sys
from pathlib import Path
from everbrook.storage.disk import OsDisk
from everbrook.storage.manifest import lock_folder
lock = lock_folder(OsDisk(), Path("data/streams/acid"))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_process_that_does_not_take_the_signal_is_not_ended_by_it(run: Run, folder: Path) -> None:
    make_store()
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        ran = run("keys", "rotate")
        assert (ran.code, "no handler for SIGUSR1" in ran.err) == (1, True)
        holder.communicate(timeout=10)
        assert holder.returncode == 0


def test_the_store_that_is_meant_may_stand_beside_another(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("file-fast", "acid"):
        monkeypatch.setenv("DS_STORAGE__MODE", mode)
        monkeypatch.setenv("DS_STORAGE__ALLOW_UNUSED_STORE", "true")
        make_store()
    monkeypatch.delenv("DS_STORAGE__ALLOW_UNUSED_STORE")
    assert run("keys", "rotate").code == 1
    assert run("keys", "rotate", "--allow-unused-store").code == 0
