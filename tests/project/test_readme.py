"""The README's examples do what the README says."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PUBLISHED_URL = "http://127.0.0.1:4437"
EVERBROOK = str(Path(sys.executable).parent / "everbrook")
PATIENCE_SECS = 30.0


def example(language: str, containing: str) -> str:
    """The one block of that language which contains these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    return str(found)


@pytest.fixture
def url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def survived(url: str, tmp_path: Path) -> Iterator[str]:
    """What the first example printed. Its second server runs on."""
    script = example("sh", "kill -9").replace("make setup ", "true ").replace(".venv/bin/everbrook", EVERBROOK)
    script = script.replace(PUBLISHED_URL, url).replace("sleep 1", f"until curl -sf {url}/healthz; do sleep 0.05; done")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DS_")}
    environment = inherited | {"DS_SERVER__PORT": url.rpartition(":")[2], "DS_LIMITS__MAX_CONNECTIONS": "100"}
    with subprocess.Popen(
        ["bash", "-c", f"{script}echo; echo over\nwait"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield printed(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + PATIENCE_SECS
    lines: list[str] = []
    while "over\n" not in lines and time.monotonic() < deadline:
        lines.append(process.stdout.readline())
    return "".join(lines)


def run_curl(example_line: str, url: str) -> str:
    command = ["bash", "-c", example_line.replace(PUBLISHED_URL, url)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout


def test_a_stream_survives_kill_9_and_is_followed_to_its_end_by_the_python_example(
    url: str, survived: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert survived.count("everbrook listens on") == 2
    assert '[{"n": 1}]' in survived
    *writes, read, _follow = example("sh", "offset=now").splitlines()
    for write in writes:
        run_curl(write, url)
    assert run_curl(read, url) == '[{"n": 1},{"n": 2},{"n": 3},{"n": 4}]'
    httpx2.post(f"{url}/v1/stream/demo", headers={"Stream-Closed": "true"}).raise_for_status()
    exec(example("python", "def follow").replace(PUBLISHED_URL, url), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out.splitlines() == ["{'n': 1}", "{'n': 2}", "{'n': 3}", "{'n': 4}"]


def test_the_mounted_application_serves_streams_below_its_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", str(tmp_path))
    namespace: dict[str, FastAPI] = {}
    exec(example("python", "FastAPI"), namespace)  # noqa: S102 - our own page
    created = asyncio.run(put(namespace["app"], "http://host/streams/v1/stream/demo"))
    assert (created.status_code, created.headers["location"]) == (201, "http://host/streams/v1/stream/demo")


async def put(app: FastAPI, url: str) -> httpx2.Response:
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        return await client.put(url)
