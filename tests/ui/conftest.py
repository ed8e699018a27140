"""The page of a real server in a real browser. A page that complains, or asks another host, fails its test."""

from collections.abc import Iterator

import pytest
from msgspec import Struct, field
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

from everbrook import Client
from tests.kit.browser import chromium
from tests.kit.server_process import ServerProcess, serving


class Complaints(Struct):
    """What a page complained of, and what it asked others for."""

    said: list[str] = field(default_factory=list)

    def watch(self, page: Page, origin: str) -> None:
        """Hear what a page has to say."""

        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.said.append(message.text)

        def on_request(request: Request) -> None:
            if not request.url.startswith(origin):
                self.said.append(f"asked another host: {request.url}")

        page.on("console", on_console)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", on_request)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a file and no longer: while it runs, its event loop is that of the thread, and nobody else has one."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("server"), DS_LIMITS__MAX_STREAM_BYTES="200000000") as process:
        yield process


@pytest.fixture
def origin(server: ServerProcess) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


@pytest.fixture
def client(origin: str) -> Iterator[Client]:
    with Client(origin) as client:
        yield client


@pytest.fixture
def complaints() -> Complaints:
    """A test that expects complaints empties it."""
    return Complaints()


@pytest.fixture
def page(browser: Browser, origin: str, complaints: Complaints) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(15_000)
        page = context.new_page()
        complaints.watch(page, origin)
        yield page
    assert not complaints.said


@pytest.fixture
def ui(origin: str) -> str:
    return f"{origin}/ui/"
