"""The README's examples do what the README says."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from tests.conformance.targets import Target, serving

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PUBLISHED_URL = "http://127.0.0.1:4437"


def example(language: str, containing: str) -> str:
    """The one block of that language which contains these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    return str(found)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serving(Target("http1", "memory"), tmp_path) as base_url:
        yield base_url


def run_curl(example_line: str, url: str) -> str:
    command = ["bash", "-c", example_line.replace(PUBLISHED_URL, url)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout


def test_a_stream_made_and_filled_by_the_shell_examples_is_followed_to_its_end_by_the_python_example(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [created] = [line for line in example("sh", "make setup").splitlines() if line.startswith("curl")]
    assert run_curl(created, url).startswith("HTTP/1.1 201")
    *writes, read, _follow = example("sh", "offset=-1").splitlines()
    for write in writes:
        run_curl(write, url)
    assert run_curl(read, url) == '[{"n": 1},{"n": 2},{"n": 3}]'
    httpx2.post(f"{url}/v1/stream/demo", headers={"Stream-Closed": "true"}).raise_for_status()
    exec(example("python", "def follow").replace(PUBLISHED_URL, url), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out.splitlines() == ["{'n': 1}", "{'n': 2}", "{'n': 3}"]


def test_the_mounted_application_serves_streams_below_its_mount() -> None:
    namespace: dict[str, FastAPI] = {}
    exec(example("python", "FastAPI"), namespace)  # noqa: S102 - our own page
    created = asyncio.run(put(namespace["app"], "http://host/streams/v1/stream/demo"))
    assert (created.status_code, created.headers["location"]) == (201, "http://host/streams/v1/stream/demo")


async def put(app: FastAPI, url: str) -> httpx2.Response:
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        return await client.put(url)
