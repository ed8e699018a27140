"""File descriptors: more connections and snapshots than the system allows files take nothing from the storage."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from everbrook.server.limits.descriptors import MIN_CONNECTIONS, Allotment, allot, wanted
from everbrook.server.tuning import ListenerTuning
from everbrook.settings import LimitSettings, Settings
from tests.kit.server_process import EVERBROOK, ServerProcess, environment
from tests.kit.wire import Wire

MB = 1_000_000
FILES = 600
CROWD = 700
# The acid storage takes its journal over into LMDB, and begins a new file, each time it has grown by so much.
JOURNAL_BYTES = 32 * 1024 * 1024
STREAM = "/v1/stream/a"


@contextmanager
def started_with(files: int, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a server that may have so many files open."""
    with subprocess.Popen(
        ["/bin/sh", "-c", f'ulimit -n {files}; exec "$0" serve --port 0', EVERBROOK],
        cwd=folder,
        env=environment(DS_STORAGE__MODE="acid", DS_LIMITS__MAX_CONNECTIONS="5000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with started_with(FILES, tmp_path) as process:
        yield ServerProcess(process)


@pytest.fixture
def wire(server: ServerProcess) -> Iterator[Wire]:
    """A connection that was there before the crowd."""
    with server.connect() as wire:
        assert wire.create(STREAM, body=b"a").status == 201
        yield wire


@pytest.fixture
def crowd(server: ServerProcess, wire: Wire) -> Iterator[list[Wire]]:
    """More idle connections than the server has files. Those that it does not admit, it answers and ends."""
    assert wire.get("/readyz").status == 200
    with ExitStack() as stack:
        yield [stack.enter_context(server.connect()) for _ in range(CROWD)]


def outgrow_journal(wire: Wire) -> None:
    for _ in range(JOURNAL_BYTES // MB + 3):
        assert wire.append(STREAM, b"a" * MB).status == 204


def checkpoints(wire: Wire) -> int:
    lines = wire.get("/metrics").body.decode().splitlines()
    (count,) = (line.split()[1] for line in lines if line.startswith('everbrook_checkpoints_total{outcome="ok"}'))
    return int(float(count))


@pytest.mark.usefixtures("crowd")
def test_a_crowd_of_idle_connections_keeps_nobody_from_writing(wire: Wire) -> None:
    outgrow_journal(wire)
    assert wire.append(STREAM, b"a").status == 204
    assert wire.request("PUT", f"{STREAM}/__ds/snapshot/{1:016d}", b"state").status == 204
    outgrow_journal(wire)
    assert checkpoints(wire) >= 1
    assert wire.get("/readyz").status == 200


def test_a_connection_that_does_not_fit_is_told_so(server: ServerProcess, crowd: list[Wire]) -> None:
    assert crowd[-1].read().refusal == (503, "unavailable")
    crowd[0].close()
    assert server.process.poll() is None


def test_fewer_connections_than_the_setting_says_are_a_warning(server: ServerProcess) -> None:
    _, _, err = server.stop().ended()
    assert "the system allows 600 open files" in err
    assert "instead of 5000 (limits.max_connections)" in err


def test_a_server_with_hardly_any_files_does_not_start(tmp_path: Path) -> None:
    with started_with(200, tmp_path) as process:
        out, err = process.communicate(timeout=15)
    assert (process.returncode, out) == (1, "")
    assert "the system allows this process 200 open files" in err
    assert "raise `ulimit -n`" in err
    assert not (tmp_path / "data").exists()


def test_a_crowd_of_slow_uploads_keeps_nobody_from_writing(server: ServerProcess, wire: Wire) -> None:
    with ExitStack() as stack:
        uploading = [stack.enter_context(server.connect()) for _ in range(60)]
        for each in uploading:
            each.ask("PUT", f"{STREAM}/__ds/snapshot/{1:016d}", content_length="9").send(b"some")
        assert uploading[-1].read().refusal == (503, "unavailable")
        outgrow_journal(wire)
        assert wire.append(STREAM, b"a").status == 204
        assert uploading[0].send(b" more").read().status == 204


def of(connections: int, limit: int) -> Allotment:
    return allot(Settings(limits=LimitSettings(max_connections=connections)), limit, ListenerTuning())


def test_everything_fits_where_the_system_allows_it() -> None:
    settings = Settings(limits=LimitSettings(max_connections=1000))
    allotted = of(1000, wanted(settings, ListenerTuning()))
    assert (allotted.connections, allotted.blobs) == (1000, 1000)


@pytest.mark.parametrize("limit", [*range(0, 1000, 37), 1024, 4096, 20_000])
@pytest.mark.parametrize("connections", [1, 100, 20_000])
def test_no_more_is_allotted_than_there_is(connections: int, limit: int) -> None:
    allotted = of(connections, limit)
    assert allotted.connections <= connections
    assert allotted.total <= limit or not allotted.connections
    assert allotted.connections >= min(connections, MIN_CONNECTIONS) or not allotted.connections
    assert allotted.blobs > 0


def test_what_the_settings_let_the_server_open_is_kept_free() -> None:
    few = Settings()
    many = replace(few, webhooks=replace(few.webhooks, max_concurrent=1000))
    encrypted = replace(few, tls=replace(few.tls, cert_path="a.pem", key_path="b.pem"))
    reserves = [allot(each, 4096, ListenerTuning()).reserve for each in (few, many, encrypted)]
    assert [each - reserves[0] for each in reserves[1:]] == [900, 64]
