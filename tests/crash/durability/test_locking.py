"""One server at a time uses a data folder."""

import subprocess
from pathlib import Path

import pytest

from tests.crash.durability.synced_modes import SURVIVING
from tests.kit.server_process import EVERBROOK, environment, serving


@pytest.mark.parametrize("mode", SURVIVING)
def test_a_second_server_on_a_folder_stops_with_one_line_that_says_why(mode: str, tmp_path: Path) -> None:
    settings = {"DS_STORAGE__MODE": mode, "DS_STORAGE__DATA_DIR": str(tmp_path / "data")}
    with serving(tmp_path, **settings) as first:
        second = subprocess.run(
            [EVERBROOK, "serve", "--port", "0"],
            cwd=tmp_path,
            env=environment(**settings),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert second.returncode == 1
        assert second.stderr.count("\n") == 1
        assert f"is in use by another server (process {first.process.pid})" in second.stderr
        with first.connect() as wire:
            wire.create("/v1/stream/still-there")


@pytest.mark.parametrize("mode", SURVIVING)
def test_the_lock_of_a_killed_server_keeps_nobody_out(mode: str, tmp_path: Path) -> None:
    settings = {"DS_STORAGE__MODE": mode, "DS_STORAGE__DATA_DIR": str(tmp_path / "data")}
    with serving(tmp_path, **settings) as first:
        first.process.kill()
        first.process.wait()
        with serving(tmp_path, **settings) as second, second.connect() as wire:
            assert wire.get("/readyz").status == 200
