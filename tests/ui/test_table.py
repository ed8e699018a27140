"""Streams of changes as their current tables."""

from playwright.sync_api import Page, expect

from everbrook import Client
from everbrook.client import session_events, state_events


def rows(page: Page, ui: str, name: str) -> None:
    page.goto(f"{ui}#/stream/v1/stream/{name}?tab=table")


def test_both_dialects_fold_into_one_table(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/both")
    stream.create()
    stream.append(state_events.insert("user", "1", {"name": "Ada"}))
    stream.append(session_events.set("user", "2", {"name": "Bob"}))
    stream.append(session_events.append("chunk", "m", "Hel"))
    stream.append(session_events.append("chunk", "m", "lo"))
    stream.append(state_events.delete("user", "2"))
    rows(page, ui, "table/both")
    table = page.get_by_role("listbox", name="rows")
    expect(table).to_contain_text("Ada")
    expect(table).not_to_contain_text("Bob")
    page.get_by_role("tab", name="chunk").click()
    expect(table).to_contain_text("Hello")


def test_a_row_that_changes_flashes(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/flash")
    stream.create()
    stream.append(state_events.insert("user", "1", {"name": "Ada"}))
    rows(page, ui, "table/flash")
    expect(page.locator(".table .cells.flash")).to_have_count(0)
    expect(page.locator(".state.live")).to_be_visible()
    expect(page.get_by_label("Current rows")).to_contain_text("live")
    stream.append(state_events.update("user", "1", {"name": "Grace"}))
    expect(page.locator(".cells.flash")).to_contain_text("Grace")


def test_a_reset_empties_the_table(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/reset")
    stream.create()
    stream.append(state_events.insert("user", "1", {"name": "Ada"}))
    rows(page, ui, "table/reset")
    expect(page.get_by_role("listbox", name="rows")).to_contain_text("Ada")
    stream.append(state_events.reset())
    expect(page.get_by_label("Current rows")).to_contain_text("No rows")


def test_a_table_begins_with_the_snapshot(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/snapshot")
    stream.create()
    stream.append(state_events.insert("user", "1", {"name": "Ada"}))
    with stream.materialise() as state:
        state.publish()
    stream.append(state_events.insert("user", "2", {"name": "Bob"}))
    rows(page, ui, "table/snapshot")
    table = page.get_by_role("listbox", name="rows")
    expect(table).to_contain_text("Ada")
    expect(table).to_contain_text("Bob")


def test_what_is_no_stream_of_changes_is_said_to_be_none(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/none")
    stream.create()
    stream.append({"hello": "world"})
    rows(page, ui, "table/none")
    expect(page.get_by_label("Current rows")).to_contain_text("This stream holds no changes")


def test_the_table_and_the_log_beside_it_share_one_connection(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/shared")
    stream.create()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    rows(page, ui, "table/shared")
    expect(page.get_by_label("Current rows")).to_contain_text("live")
    expect(page.locator(".state.live")).to_be_visible()
    stream.append(state_events.insert("user", "1", {"name": "Ada"}))
    expect(page.get_by_role("listbox", name="rows")).to_contain_text("Ada")
    expect(page.locator(".message")).to_contain_text("Ada")
    assert len([url for url in asked if "live=sse" in url]) == 1


def test_the_table_goes_on_when_the_log_is_turned_elsewhere(page: Page, ui: str, client: Client) -> None:
    stream = client.stream("table/apart")
    stream.create()
    stream.extend([state_events.insert("user", str(number), {"text": "x" * 1000}) for number in range(3000)])
    rows(page, ui, "table/apart")
    expect(page.locator(".state.live")).to_be_visible()
    page.get_by_role("button", name="From the beginning").click()
    expect(page.locator(".state.reading")).to_be_visible()
    stream.append(state_events.insert("other", "1", {"name": "Ada"}))
    expect(page.get_by_role("tab", name="other")).to_be_visible()
