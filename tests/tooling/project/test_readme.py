"""The application that the README mounts serves streams. That its blocks run is a matter of tests/tooling/docs."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from tests.tooling.docs.page import parse_page

README = parse_page((Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8"))


def test_the_mounted_application_serves_streams_below_its_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_STORAGE__DATA_DIR", str(tmp_path))
    namespace: dict[str, FastAPI] = {}
    [example] = [block.code for block in README if "app.mount" in block.code]
    exec(example, namespace)  # noqa: S102 - our own page
    created = asyncio.run(put(namespace["app"], "http://host/streams/v1/stream/demo"))
    assert (created.status_code, created.headers["location"]) == (201, "http://host/streams/v1/stream/demo")


async def put(app: FastAPI, url: str) -> httpx2.Response:
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        return await client.put(url)
