"""How the page is used: by keyboard, on a narrow screen, in the dark, over restarts."""

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from everbrook import Client
from tests.kit.ports import free_port
from tests.kit.server_process import serving
from tests.ui.conftest import Complaints


def test_the_keyboard_is_enough(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("keys")
    stream.create()
    stream.extend([{"n": number} for number in range(50)])
    page.goto(ui)
    page.keyboard.press("/")
    page.keyboard.type("keys")
    page.get_by_role("listbox", name="streams").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("heading", name="keys")).to_be_visible()
    page.get_by_role("listbox", name="messages").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Message", exact=True)).to_contain_text('"n": 1')


def test_a_theme_is_kept(page: Page, ui: str) -> None:
    page.goto(ui)
    page.get_by_label("Theme").select_option("dark")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_narrow_screen_shows_the_tree_or_the_stream(page: Page, ui: str, client: Client) -> None:
    client.stream("narrow").create()
    page.set_viewport_size({"width": 380, "height": 700})
    page.goto(ui)
    page.get_by_role("option", name="narrow").click()
    expect(page.get_by_role("heading", name="narrow")).to_be_visible()
    expect(page.get_by_role("listbox", name="streams")).to_be_hidden()
    page.get_by_role("link", name="Streams", exact=True).click()
    expect(page.get_by_role("listbox", name="streams")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_a_page_goes_on_after_the_server_was_away(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    durable = {"DS_STORAGE__MODE": "file-fast", "DS_STORAGE__DATA_DIR": str(tmp_path), "DS_SERVER__PORT": str(port)}
    origin, complaints = f"http://127.0.0.1:{port}", Complaints()
    with browser.new_context() as context:
        page = context.new_page()
        with serving(tmp_path, "--port", str(port), **durable):
            with Client(origin) as client:
                client.stream("away").create()
                client.stream("away").append({"before": 1})
            page.goto(f"{origin}/ui/#/stream/v1/stream/away")
            expect(page.locator(".message")).to_have_count(1)
        expect(page.locator(".state.reconnecting")).to_be_visible()
        complaints.watch(page, origin)
        with serving(tmp_path, "--port", str(port), **durable), Client(origin) as client:
            client.stream("away").append({"after": 2})
            expect(page.locator(".message")).to_have_count(2)
            expect(page.locator(".state.live")).to_be_visible()
            assert not [said for said in complaints.said if "asked another host" in said]
