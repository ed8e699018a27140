"""Streams that go, come back, are cut or closed while somebody looks at them; networks that are slow."""

import socket
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from everbrook import Client
from tests.kit.server_process import serving
from tests.ui.conftest import Complaints

HIDE = """({hidden}) => {
  Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def show(page: Page, ui: str, name: str, tab: str = "log") -> None:
    page.goto(f"{ui}#/stream/v1/stream/{name}?tab={tab}")


def test_a_stream_that_is_deleted_is_said_to_be_gone(
    page: Page, ui: str, client: Client, complaints: Complaints
) -> None:
    stream = client.stream("trouble/deleted")
    stream.create()
    show(page, ui, "trouble/deleted")
    expect(page.locator(".state.live")).to_be_visible()
    stream.delete()
    expect(page.get_by_role("alert")).to_contain_text("there is no stream at")
    complaints.said.clear()


def test_a_stream_that_is_made_anew_is_shown_anew(page: Page, ui: str, client: Client, complaints: Complaints) -> None:
    stream = client.stream("trouble/anew")
    stream.create()
    stream.extend([{"old": number} for number in range(3)])
    show(page, ui, "trouble/anew")
    expect(page.locator(".message")).to_have_count(3)
    expect(page.locator(".server.live")).to_be_visible()
    stream.delete()
    stream.create()
    stream.append({"new": 1})
    expect(page.locator(".message")).to_have_count(1)
    expect(page.locator(".message")).to_contain_text("new")
    complaints.said.clear()


def test_a_stream_that_comes_later_is_shown_when_it_comes(
    page: Page, ui: str, client: Client, complaints: Complaints
) -> None:
    show(page, ui, "trouble/later")
    expect(page.get_by_role("alert")).to_contain_text("no such stream")
    client.stream("trouble/later").create()
    client.stream("trouble/later").append({"here": 1})
    expect(page.locator(".message")).to_contain_text("here")
    complaints.said.clear()


def test_what_was_cut_off_above_is_no_error(page: Page, ui: str, client: Client, complaints: Complaints) -> None:
    stream = client.stream("trouble/cut")
    stream.create()
    offsets = [stream.extend([{"n": first + at} for at in range(1000)]) for first in range(0, 3000, 1000)]
    show(page, ui, "trouble/cut")
    expect(page.locator(".message").last).to_contain_text("2999")
    stream.publish(b"{}", offset=offsets[-1])
    page.get_by_role("listbox", name="messages").evaluate("list => { list.scrollTop = 0 }")
    page.wait_for_timeout(500)
    expect(page.get_by_role("alert")).to_have_count(0)
    complaints.said.clear()


def test_a_jump_to_no_boundary_says_so_and_the_latest_are_one_click_away(
    page: Page, ui: str, client: Client, complaints: Complaints
) -> None:
    stream = client.stream("trouble/jump")
    stream.create()
    stream.append({"n": 1})
    show(page, ui, "trouble/jump")
    page.get_by_label("Jump to an offset or a time").fill("3")
    page.get_by_label("Jump to an offset or a time").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("inside a message")
    page.get_by_role("button", name="Latest").click()
    expect(page.locator(".message")).to_have_count(1)
    complaints.said.clear()


def test_enter_twice_on_a_slow_network_appends_once(page: Page, ui: str, client: Client) -> None:
    def slowly(route: Route) -> None:
        page.wait_for_timeout(300)
        route.continue_()

    stream = client.stream("trouble/slow")
    stream.create()
    show(page, ui, "trouble/slow")
    page.route(lambda url: url.endswith("trouble/slow"), slowly)
    box = page.get_by_label("Message to append")
    box.fill("1")
    box.press("Enter")
    box.press("Enter")
    expect(page.locator(".message")).to_have_count(1)
    page.unroute_all(behavior="wait")
    assert list(stream.read()) == [1]


def test_a_search_that_finds_nothing_harms_nothing(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("trouble/nothing")
    stream.create()
    stream.extend([{"n": number} for number in range(700)])
    show(page, ui, "trouble/nothing")
    expect(page.locator(".message").last).to_contain_text("699")
    for word in ["zzz", "", "699", "zzz"]:
        page.get_by_label("Search in what is shown").fill(word)
        stream.append({"n": 1})
    expect(page.locator(".log")).to_contain_text("Nothing that is shown has this")


def test_what_is_searched_goes_on_as_messages_come(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("trouble/search")
    stream.create()
    stream.extend([{"n": number} for number in range(700)])
    show(page, ui, "trouble/search")
    page.get_by_label("Search in what is shown").fill("99")
    expect(page.locator(".log .count")).to_contain_text("5 found")
    stream.append({"n": 9900})
    expect(page.locator(".log .count")).to_contain_text("6 found")


def test_a_tab_that_nobody_sees_lets_its_connection_go(page: Page, ui: str, client: Client) -> None:
    """A browser has six connections for a server: a seventh tab would wait for ever."""
    stream = client.stream("trouble/hidden")
    stream.create()
    page.clock.install()
    show(page, ui, "trouble/hidden")
    expect(page.locator(".state.live")).to_be_visible()
    with page.expect_event("requestfailed", lambda request: "live=sse" in request.url):
        page.evaluate(HIDE, {"hidden": True})
        page.clock.run_for(6000)
    stream.append({"meanwhile": 1})
    page.evaluate(HIDE, {"hidden": False})
    expect(page.locator(".message")).to_contain_text("meanwhile")


def test_what_was_cut_off_while_nobody_looked_is_told(
    page: Page, ui: str, client: Client, complaints: Complaints
) -> None:
    stream = client.stream("trouble/missed")
    stream.create()
    stream.append({"n": 1})
    page.clock.install()
    show(page, ui, "trouble/missed")
    expect(page.locator(".state.live")).to_be_visible()
    with page.expect_event("requestfailed", lambda request: "live=sse" in request.url):
        page.evaluate(HIDE, {"hidden": True})
        page.clock.run_for(6000)
    stream.publish(b"{}", offset=stream.append({"missed": 2}))
    stream.append({"n": 3})
    page.evaluate(HIDE, {"hidden": False})
    expect(page.locator(".message")).to_contain_text('"n": 3')
    expect(page.locator(".log .count")).to_contain_text("were cut off before they were seen")
    complaints.said.clear()


def test_the_bootstrap_of_a_large_stream_is_not_downloaded_whole(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("trouble/large", content_type="application/octet-stream")
    stream.create()
    for _ in range(30):
        stream.append(bytes(range(256)) * 2000)
    show(page, ui, "trouble/large", "bootstrap")
    expect(page.get_by_label("Bootstrap", exact=True)).to_contain_text("00 01 02 03")
    expect(page.get_by_label("Bootstrap", exact=True)).to_contain_text("are shown")


def test_an_address_that_is_no_text_shows_the_streams(page: Page, ui: str) -> None:
    page.goto(f"{ui}#/stream/v1/stream/%zz")
    expect(page.get_by_role("listbox", name="streams")).to_be_visible()


def test_skipping_to_the_content_stays_where_one_is(page: Page, ui: str, client: Client) -> None:
    client.stream("trouble/skip").create()
    show(page, ui, "trouble/skip")
    expect(page.get_by_role("heading", name="trouble/skip")).to_be_visible()
    page.get_by_role("link", name="Skip to the content").press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert "trouble/skip" in page.url


def test_focus_comes_back_when_a_dialog_is_left(page: Page, ui: str) -> None:
    page.goto(ui)
    page.get_by_role("button", name="New").press("Enter")
    expect(page.get_by_label("Path")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="New")).to_be_focused()


def test_a_part_of_the_page_that_did_not_come_is_asked_for_again(page: Page, ui: str, complaints: Complaints) -> None:
    page.goto(ui)
    page.route("**/views/actions.js", lambda route: route.abort(), times=1)
    page.get_by_role("button", name="New").click()
    page.get_by_role("alert").get_by_role("button", name="Try again").click()
    expect(page.get_by_label("Path")).to_be_focused()
    complaints.said.clear()


def test_a_stream_that_expires_leaves_the_tree_and_is_said_to_be_gone(
    page: Page, ui: str, client: Client, complaints: Complaints
) -> None:
    client.stream("expiring").create(expires_at=datetime.now(UTC) + timedelta(seconds=4))
    show(page, ui, "expiring")
    expect(page.get_by_role("option", name="expiring")).to_contain_text(" s")
    expect(page.get_by_role("alert")).to_contain_text("there is no stream", timeout=40_000)
    expect(page.get_by_role("option", name="expiring")).to_have_count(0, timeout=40_000)
    complaints.said.clear()


def test_a_fork_of_a_fork_shows_all_that_is_before_it(page: Page, ui: str, client: Client) -> None:
    client.stream("trouble/one").create()
    client.stream("trouble/one").append({"n": 1})
    for source, fork in [("one", "two"), ("two", "three")]:
        client.stream(f"trouble/{source}").fork(f"trouble/{fork}")
        client.stream(f"trouble/{fork}").append({"n": fork})
    show(page, ui, "trouble/three")
    expect(page.locator(".message")).to_have_count(3)


def test_characters_that_are_split_between_messages_stay_what_they_are(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("trouble/split", content_type="text/plain")
    stream.create()
    stream.append("é".encode()[:1])
    stream.append("é".encode()[1:])
    show(page, ui, "trouble/split")
    page.locator(".message").first.click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("c3")
    expect(page.get_by_label("Message", exact=True)).to_contain_text("not UTF-8")


def test_streams_that_went_with_a_server_in_memory_leave_the_tree(browser: Browser, tmp_path: Path) -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    origin = f"http://127.0.0.1:{port}"
    with browser.new_context() as context:
        page = context.new_page()
        with serving(tmp_path, "--port", port), Client(origin) as client:
            client.stream("short-lived").create()
            page.goto(f"{origin}/ui/")
            expect(page.get_by_role("option", name="short-lived")).to_be_visible()
        with serving(tmp_path, "--port", port), Client(origin) as client:
            client.stream("of-the-next").create()
            expect(page.get_by_role("option", name="of-the-next")).to_be_visible()
            expect(page.get_by_role("option", name="short-lived")).to_have_count(0)


def test_a_browser_that_keeps_nothing_shows_the_page(page: Page, ui: str, client: Client) -> None:
    client.stream("trouble/unkept").create()
    page.add_init_script(
        "for (const name of ['sessionStorage', 'localStorage'])"
        " Object.defineProperty(window, name, {get() { throw new DOMException('no', 'SecurityError'); }});"
    )
    show(page, ui, "trouble/unkept")
    expect(page.locator(".state.live")).to_be_visible()


def test_a_page_whose_parts_do_not_come_says_so(page: Page, ui: str, complaints: Complaints) -> None:
    page.route("**/js/app.js", lambda route: route.abort())
    page.goto(ui)
    expect(page.get_by_text("The parts of this page do not come")).to_be_visible()
    page.unroute("**/js/app.js")
    page.reload()
    expect(page.get_by_role("banner")).to_be_visible()
    page.wait_for_timeout(4500)
    expect(page.get_by_text("The parts of this page do not come")).not_to_be_visible()
    complaints.said.clear()


def test_a_dialog_that_is_still_on_its_way_can_be_called_off(page: Page, ui: str) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/js/views/actions.js", hold)
    page.goto(ui)
    expect(page.locator(".server.live")).to_be_visible()
    page.keyboard.press("n")
    page.wait_for_timeout(100)
    page.keyboard.press("Escape")
    for route in held:
        route.continue_()
    assert held
    page.wait_for_timeout(300)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.get_by_role("dialog")).to_be_visible()
