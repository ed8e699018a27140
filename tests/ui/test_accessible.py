"""Every view can be used by everybody: what axe knows of the rules is kept, in the light and in the dark."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from everbrook import Client
from everbrook.client import state_events
from tools.node import find_node, install_packages

FOLDER = Path(__file__).parent
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
NAME = "#/stream/v1/stream/seen"
# Every view, and what is there once it has come.
VIEWS = {
    "#/streams": ".recent a",
    "#/pipeline": ".chart canvas",
    "#/server": ".chart canvas",
    "#/stream/v1/stream/none": ".error",
    f"{NAME}?tab=log": ".message",
    f"{NAME}?tab=table": ".table .list .cells",
    f"{NAME}?tab=snapshot": ".jline",
    f"{NAME}?tab=bootstrap": ".parts li",
    f"{NAME}?tab=producers": ".around td",
    f"{NAME}?tab=subscriptions": ".around .empty:has-text('No subscription')",
    f"{NAME}?tab=facts": ".facts dd",
}
# What is clicked, and what that brings.
CLICKS = {
    ".message": ".detail .jline",
    ".tree-tools button.primary": "dialog input",
    ".buttons button.danger": "dialog input",
}
RUN = """async (only) => (await axe.run(document, {resultTypes: ['violations'], ...only})).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 160) + ' ' + node.failureSummary).join(' | '))"""
# What a theme can change.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}


@pytest.fixture(scope="session")
def axe() -> Path:
    install_packages(FOLDER, find_node())
    return AXE


@pytest.fixture
def seen(client: Client) -> None:
    """A stream with something in every view of it."""
    stream = client.stream("seen")
    if stream.exists():
        return
    stream.create()
    offset = stream.append(state_events.insert("user", "1", {"name": "Ada", "on": True, "n": 1, "none": None}))
    with stream.producer("agent") as producer:
        producer.append(state_events.insert("user", "2", {"name": "Bob\u202e"}))
    stream.publish(b'[{"a": 1}]', offset=offset)
    progress = client.stream("pipeline-progress")
    progress.create(exist_ok=True)
    job = {"job": "sessions", "what": "to a table", "state": "running", "rows": 1, "error": "an error"}
    progress.append(state_events.upsert("job", "sessions", job))
    runner = {"pid": 1, "host": "here", "heartbeat_at": datetime.now(UTC).isoformat()}
    progress.append(state_events.upsert("runner", "runner", runner))


def violations(page: Page, axe: Path) -> list[str]:
    page.add_script_tag(path=axe)
    light: list[str] = page.evaluate(RUN, {})
    page.emulate_media(color_scheme="dark")
    dark: list[str] = page.evaluate(RUN, COLOURS)
    return light + dark


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    # The policy of the page lets no script in but its own, so it is set aside here.
    with browser.new_context(color_scheme="light", bypass_csp=True, reduced_motion="reduce") as context:
        yield context.new_page()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.usefixtures("seen")
def test_every_view_keeps_the_rules(page: Page, axe: Path, ui: str, view: str) -> None:
    page.goto(f"{ui}{view}")
    expect(page.locator(".server.live")).to_be_visible()
    expect(page.locator(VIEWS[view]).first).to_be_visible()
    assert not violations(page, axe)


@pytest.mark.parametrize("click", CLICKS)
@pytest.mark.usefixtures("seen")
def test_messages_and_dialogs_keep_the_rules(page: Page, axe: Path, ui: str, click: str) -> None:
    page.goto(f"{ui}{NAME}")
    expect(page.locator(".server.live")).to_be_visible()
    page.locator(click).first.click()
    expect(page.locator(CLICKS[click]).first).to_be_visible()
    assert not violations(page, axe)
