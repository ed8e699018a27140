"""The example, as its README starts it, and a real browser in front of it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec import Struct
from playwright.sync_api import Browser, Page

from tests.kit.browser import chromium
from tests.kit.faults.proxy import Proxy
from tests.kit.server_process import serving
from tools.node import find_node, install_packages

CHAT = Path(__file__).parents[2] / "examples/chat"
WORDS_PER_SEC = "60"


class Chat(Struct, frozen=True):
    """The chat at a URL, and the ways to it and to its streams, which can be cut."""

    url: str
    ways: tuple[Proxy, Proxy]

    def cut(self) -> None:
        """Break every connection there is."""
        for way in self.ways:
            way.cut_all()


@pytest.fixture(scope="module")
def served_chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    install_packages(CHAT, find_node())
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path_factory.mktemp("server")))
        streams = stack.enter_context(Proxy(server.address[1]))
        application = stack.enter_context(_application(streams.origin))
        page = stack.enter_context(Proxy(int(application.rpartition(":")[2])))
        yield Chat(page.origin, (streams, page))


@pytest.fixture
def chat(served_chat: Chat) -> str:
    """The URL of the chat."""
    return served_chat.url


@contextmanager
def _application(streams: str) -> Iterator[str]:
    environment = os.environ | {"EVERBROOK_URL": streams, "CHAT_WORDS_PER_SEC": WORDS_PER_SEC}
    environment.pop("OPENAI_API_KEY", None)
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", "0", "--timeout-graceful-shutdown", "1"]
    with subprocess.Popen(command, cwd=CHAT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _address(process)
        finally:
            process.terminate()
            process.communicate(timeout=20)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            return found[1]
    raise AssertionError("".join(said))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, chat: str) -> Iterator[Page]:
    """The page of a person who was never here."""
    with browser.new_context() as context:
        context.set_default_timeout(15_000)
        yield context.new_page()
