"""The page of a server that is mounted in another application: it knows its server by where it is itself."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from everbrook import Client
from everbrook.server.asgi import create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import configured


@pytest.fixture(scope="module")
def mounted() -> Iterator[Mounted]:
    streams = create_app(configured())
    app = FastAPI(lifespan=streams.lifespan)
    app.mount("/streams", streams)
    with Mounted(streams, app) as server:
        yield server


@pytest.fixture
def origin(mounted: Mounted) -> str:
    return f"http://{mounted.address[0]}:{mounted.address[1]}/streams"


def test_the_page_shows_the_streams_of_its_mount(page: Page, origin: str) -> None:
    with Client(origin) as client:
        client.stream("chats/1").create()
        page.goto(f"{origin}/ui")
        page.get_by_role("option", name="chats/").click()
        page.get_by_role("option", name="1").last.click()
        expect(page.locator(".state.live")).to_be_visible()
        client.stream("chats/1").append({"live": "below a path"})
        expect(page.locator(".message")).to_contain_text("below a path")


def test_a_stream_is_forked_below_a_mount(page: Page, origin: str) -> None:
    with Client(origin) as client:
        client.stream("source").create()
        client.stream("source").append({"kept": 1})
        page.goto(f"{origin}/ui/#/stream/v1/stream/source")
        page.get_by_role("button", name="Fork", exact=True).click()
        page.get_by_label("Name of the new stream").fill("forked")
        page.get_by_role("dialog").get_by_role("button", name="Fork").click()
        expect(page.get_by_role("heading", name="forked")).to_be_visible()
        assert list(client.stream("forked").read()) == [{"kept": 1}]
