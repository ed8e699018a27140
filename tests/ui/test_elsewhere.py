"""The page turned to another server: one of the same kind, and the Node reference, which lists nothing."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from bench import reference
from everbrook import Client
from tests.kit.ports import free_port
from tests.kit.server_process import serving
from tests.ui.conftest import Complaints

PATIENCE_SECS = 60.0


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """The reference server."""
    port = free_port()
    with subprocess.Popen(reference.command(port)) as process:
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("other")) as process:
        yield f"http://{process.address[0]}:{process.address[1]}"


@pytest.fixture(scope="module")
def looking(tmp_path_factory: pytest.TempPathFactory, node: str, other: str) -> Iterator[str]:
    """A server whose page may ask the two others."""
    with serving(tmp_path_factory.mktemp("looking"), DS_UI__CONNECT_ORIGINS=f"{node},{other}") as process:
        yield f"http://{process.address[0]}:{process.address[1]}/ui/"


@pytest.fixture
def page(browser: Browser, complaints: Complaints) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(15_000)
        page = context.new_page()
        complaints.watch(page, "http://127.0.0.1")
        yield page
    # That there is no registry is only known by asking for it.
    assert [said for said in complaints.said if "404" not in said] == []


def test_the_streams_of_another_server_are_listed(page: Page, looking: str, other: str) -> None:
    with Client(other) as client:
        client.stream("over-there").create()
        page.goto(f"{looking}?server={other}")
        page.get_by_role("option", name="over-there").click()
        expect(page.locator(".state.live")).to_be_visible()
        client.stream("over-there").append({"seen": "from here"})
        expect(page.locator(".message")).to_contain_text("from here")


KINDS = {
    "application/json": ({"n": 1}, {"n": 2}, '"n": 2'),
    "text/plain": ("first", "second", "second"),
    "application/octet-stream": (b"\x00\x01", b"\xfe\xff", "fe ff"),
}


@pytest.mark.parametrize("content_type", KINDS)
def test_a_stream_of_the_reference_server_is_read_and_followed(
    page: Page, looking: str, node: str, content_type: str
) -> None:
    first, second, shown = KINDS[content_type]
    name = content_type.replace("/", "-")
    with Client(node) as client:
        stream = client.stream(name, content_type=content_type)
        stream.create()
        stream.append(first)
        page.goto(f"{looking}?server={node}")
        page.get_by_role("button", name="Open one by its path").click()
        page.get_by_label("Path of the stream").fill(name)
        page.get_by_role("button", name="Open", exact=True).click()
        expect(page.locator(".message")).to_have_count(1)
        expect(page.locator(".state.live")).to_be_visible()
        stream.append(second)
        expect(page.locator(".message").nth(1)).to_contain_text(shown)


def test_a_stream_of_the_reference_server_is_appended_to_and_closed(page: Page, looking: str, node: str) -> None:
    with Client(node) as client:
        client.stream("written").create(content_type="application/json")
        page.goto(f"{looking}?server={node}#/stream/v1/stream/written")
        page.get_by_label("Message to append").fill('{"typed": 1}')
        page.get_by_label("Message to append").press("Enter")
        expect(page.locator(".message")).to_contain_text("typed")
        page.get_by_role("button", name="Close", exact=True).click()
        page.get_by_role("button", name="Close the stream").click()
        expect(page.locator(".state.closed")).to_be_visible()
        assert list(client.stream("written").read()) == [{"typed": 1}]


def test_a_session_of_the_reference_server_is_shown_as_a_table(page: Page, looking: str, node: str) -> None:
    with Client(node) as client:
        stream = client.stream("session")
        stream.create(content_type="application/json")
        stream.append({"type": "user", "key": "1", "value": {"name": "Ada"}, "headers": {"operation": "insert"}})
        page.goto(f"{looking}?server={node}#/stream/v1/stream/session?tab=table")
        expect(page.get_by_role("listbox", name="rows")).to_contain_text("Ada")


def test_a_registry_tells_which_streams_there_are(page: Page, looking: str, node: str) -> None:
    with Client(node) as client:
        registry = client.stream("__registry__")
        registry.create(content_type="application/json")
        value = {"path": "registered", "contentType": "text/plain", "createdAt": 1}
        registry.append({"type": "stream", "key": "registered", "value": value, "headers": {"operation": "insert"}})
        page.goto(f"{looking}?server={node}")
        expect(page.get_by_role("option", name="registered")).to_be_visible()
        registry.delete()


def test_a_server_that_no_setting_names_is_not_asked(page: Page, looking: str, complaints: Complaints) -> None:
    page.goto(f"{looking}?server=http://127.0.0.1:9")
    expect(page.locator(".server.failed")).to_be_visible()
    assert any("Content Security Policy" in said for said in complaints.said)
    complaints.said.clear()


def test_a_token_is_for_one_server_alone(page: Page, looking: str, node: str, other: str) -> None:
    page.goto(f"{looking}?server={other}")
    page.get_by_role("button", name="Token").click()
    page.get_by_label("Token or API key").fill("secret")
    page.get_by_role("button", name="Use it").click()
    sent: dict[str, str] = {}
    page.on("request", lambda request: sent.update({request.url: request.headers.get("authorization", "")}))
    page.goto(f"{looking}?server={node}")
    expect(page.locator(".server.live")).to_be_visible()
    assert {token for url, token in sent.items() if url.startswith(node)} == {""}
