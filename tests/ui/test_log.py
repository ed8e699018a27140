"""A stream's messages, live."""

import subprocess
import sys
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from everbrook import Client

SCROLL_UP = """text => {
  document.querySelector('.log .list').scrollTop = 0;
  return document.querySelector('.message').textContent.includes(text);
}"""


def show(page: Page, ui: str, name: str, tab: str = "log") -> None:
    page.goto(f"{ui}#/stream/v1/stream/{name}?tab={tab}")


def test_messages_appear_as_another_process_appends_them(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/live")
    stream.create()
    show(page, ui, "log/live")
    expect(page.locator(".state.live")).to_be_visible()
    stream.append({"hello": "there"})
    expect(page.get_by_role("option").filter(has_text='"there"')).to_be_visible()


def test_a_paused_log_stands_still_and_says_what_it_missed(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/paused")
    stream.create()
    stream.append({"n": 1})
    show(page, ui, "log/paused")
    expect(page.locator(".message")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    stream.append({"n": 2})
    page.get_by_role("button", name="Latest").hover()
    page.wait_for_timeout(500)
    expect(page.locator(".message")).to_have_count(1)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".message")).to_have_count(2)


def test_a_message_shows_its_offset_and_can_be_folded(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/folded")
    stream.create()
    stream.append({"outer": {"inner": [1, 2]}})
    show(page, ui, "log/folded")
    page.locator(".message").click()
    detail = page.get_by_label("Message", exact=True)
    expect(detail).to_contain_text("0000000000000000")
    expect(detail).to_contain_text('"inner"')
    detail.get_by_role("button", name="Fold all", exact=True).click()
    expect(detail).not_to_contain_text('"inner"')


def test_numbers_are_shown_as_they_were_written(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/numbers")
    stream.create()
    body = b'{"n": 12345678901234567890.10}'
    url = f"{client.url}/v1/stream/log/numbers"
    urlopen(Request(url, body, {"Content-Type": "application/json"})).close()  # noqa: S310 - our own server
    show(page, ui, "log/numbers")
    expect(page.locator(".message")).to_contain_text("12345678901234567890.10")


def test_the_log_begins_at_the_beginning_or_at_an_offset(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/jumps")
    stream.create()
    middle = stream.extend([{"n": number} for number in range(1000)])
    stream.extend([{"n": number} for number in range(1000, 2000)])
    show(page, ui, "log/jumps")
    expect(page.locator(".message").last).to_contain_text("1999")
    page.get_by_role("button", name="From the beginning").click()
    expect(page.locator(".message").first).to_contain_text('"n": 0')
    page.get_by_label("Jump to an offset or a time").fill(str(middle))
    page.get_by_label("Jump to an offset or a time").press("Enter")
    expect(page.locator(".message", has_text='"n": 1000}')).to_be_in_viewport()


def test_scrolling_up_brings_what_came_before(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/back")
    stream.create()
    stream.extend([{"n": number} for number in range(3000)])
    show(page, ui, "log/back")
    expect(page.locator(".message").last).to_contain_text("2999")
    page.wait_for_function(SCROLL_UP, arg='"n": 0}')


def test_search_shows_what_has_the_word(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/search")
    stream.create()
    stream.extend([{"word": f"w{number}"} for number in range(200)])
    show(page, ui, "log/search")
    page.get_by_label("Search in what is shown").fill("W150")
    expect(page.locator(".message")).to_have_count(1)


def test_the_append_box_appends_and_remembers(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/box")
    stream.create()
    show(page, ui, "log/box")
    box = page.get_by_label("Message to append")
    box.fill('{"typed": true}')
    box.press("Enter")
    expect(page.locator(".message")).to_contain_text("typed")
    box.press("ArrowUp")
    expect(box).to_have_value('{"typed": true}')
    assert list(stream.read()) == [{"typed": True}]


def test_what_is_no_json_is_not_sent(page: Page, ui: str, client: Client) -> None:
    client.stream("log/wrong").create()
    show(page, ui, "log/wrong")
    page.get_by_label("Message to append").fill("{nope")
    page.get_by_role("button", name="Append").click()
    expect(page.get_by_role("alert")).to_contain_text("this is not JSON")


def test_closing_a_stream_says_so_and_takes_the_box_away(page: Page, ui: str, client: Client) -> None:
    client.stream("log/closing").create()
    show(page, ui, "log/closing")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Close the stream").click()
    expect(page.locator(".state.closed")).to_be_visible()
    expect(page.get_by_label("Message to append")).to_have_count(0)


def test_a_fork_begins_with_what_is_before_a_message(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/source")
    stream.create()
    stream.append({"kept": 1})
    stream.append({"left": 2})
    show(page, ui, "log/source")
    page.locator(".message").first.click()
    page.get_by_role("button", name="Fork here").click()
    page.get_by_label("Name of the new stream").fill("log/forked")
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    expect(page.get_by_role("heading", name="log/forked")).to_be_visible()
    assert list(client.stream("log/forked").read()) == [{"kept": 1}]


def test_binary_messages_are_shown_as_bytes(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/binary", content_type="application/octet-stream")
    stream.create()
    stream.append(b"\x00\xff\x10ABC")
    show(page, ui, "log/binary")
    expect(page.locator(".message")).to_contain_text("00 ff 10 41 42 43")
    page.locator(".message").click()
    expect(page.get_by_label("Message", exact=True)).to_contain_text("00000000  00 ff 10 41 42 43")


@pytest.mark.parametrize("name", ["log/python", 'it\'s "odd"/ü'])
def test_a_message_is_copied_as_python_that_reads_it(page: Page, ui: str, client: Client, name: str) -> None:
    stream = client.stream(name)
    stream.create()
    stream.append({"n": 1})
    stream.append({"n": 2})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(ui)
    page.get_by_label("Search streams").fill(name.rpartition("/")[2])
    page.get_by_role("listbox", name="streams").get_by_role("option").first.click()
    page.locator(".message").nth(1).click()
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    program = page.evaluate("navigator.clipboard.readText()")
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "{'n': 2}"


def test_a_message_is_copied_as_a_command_that_reads_it(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("log/copied")
    stream.create()
    stream.append({"n": 1})
    show(page, ui, "log/copied")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".message").click()
    page.get_by_role("button", name="Copy as curl").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"curl '{client.url}/v1/stream/log/copied?offset=0000000000000000&until=0000000000000008'"
