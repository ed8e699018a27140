"""kill -9 in the middle of an import and of an export, again and again: in the end everything is there, once."""

import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from everbrook import Client
from tests.cli.archives import TIMEOUT_SECS, contents, everbrook, server_in
from tests.kit.server_process import EVERBROOK

SHARES = [0.0, 0.1, 0.25, 0.4, 0.6, 0.8]
"""How much of a copy is there when its process is killed."""
POLL_SECS = 0.002


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with enough in it to be killed while it is copied."""
    with server_in(tmp_path_factory.mktemp("source")) as url, Client(url) as client:
        for number in range(3):
            values = client.stream(f"values/{number}")
            values.create()
            values.extend([{"n": n, "filling": "x" * 400} for n in range(8_000)])
            text = client.stream(f"text/{number}")
            text.create(content_type="text/plain")
            for n in range(150):
                text.append(f"{n}\n")
            text.close()
        yield url


def killed(*line: str, at: float, size: Callable[[], int]) -> bool:
    """Run a command line, and kill it as soon as a size is exceeded. Tells whether it was still running."""
    with subprocess.Popen([EVERBROOK, *line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if size() > at:
                process.kill()
                return True
            time.sleep(POLL_SECS)
    return False


def stored_bytes(client: Client) -> int:
    return sum(stream.tail_offset for stream in client.list())


def test_an_export_that_is_killed_goes_on_and_is_whole_in_the_end(source: str, tmp_path: Path) -> None:
    whole, file = tmp_path / "whole", tmp_path / "file"
    line = ("export", "--all", "--url", source, "-o")
    assert everbrook(*line, str(whole)).returncode == 0
    file.touch()
    size = whole.stat().st_size
    kills = [
        killed(*line, str(file), "--resume", at=size * share, size=lambda: file.stat().st_size) for share in SHARES
    ]
    ran = everbrook(*line, str(file), "--resume")
    assert ran.returncode == 0, ran.stderr
    assert any(kills)
    assert file.read_bytes() == whole.read_bytes()


def test_an_import_that_is_killed_goes_on_and_has_everything_once(source: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert everbrook("export", "--all", "--url", source, "-o", str(file)).returncode == 0
    with server_in(tmp_path / "target") as url, Client(url) as target, Client(source) as whole:
        line = ("import", str(file), "--url", url)
        size = stored_bytes(whole)
        kills = [killed(*line, at=size * share, size=partial(stored_bytes, target)) for share in SHARES]
        ran = everbrook(*line, "--verify")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert any(kills)
        assert contents(url) == contents(source)


def test_an_import_goes_on_over_a_server_that_is_killed(source: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert everbrook("export", "--all", "--url", source, "-o", str(file)).returncode == 0
    for _ in range(3):
        with (
            server_in(tmp_path / "target", "acid") as url,
            subprocess.Popen([EVERBROOK, "import", str(file), "--url", url], stderr=subprocess.DEVNULL) as process,
        ):
            time.sleep(1.0)  # the server is killed where this ends, and the import with it
            process.kill()
    with server_in(tmp_path / "target", "acid") as url:
        ran = everbrook("import", str(file), "--url", url, "--verify")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert contents(url) == contents(source)


def test_imports_at_the_same_time_make_everything_once(source: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert everbrook("export", "--all", "--url", source, "-o", str(file)).returncode == 0
    with server_in(tmp_path / "target") as url:
        line = [EVERBROOK, "import", str(file), "--url", url]
        processes = [subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
        ended = [(process.communicate(timeout=TIMEOUT_SECS)[1], process.returncode) for process in processes]
        assert ended == [(b"", 0)] * 3
        assert contents(url) == contents(source)
