"""Every view can be used by everybody: what axe knows of the rules is kept, in the light and in the dark."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from everbrook import Client
from everbrook.client import state_events
from tools.node import find_node, install_packages

FOLDER = Path(__file__).parent
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
NAME = "#/stream/v1/stream/seen"
VIEWS = ["#/streams", "#/pipeline", "#/server", "#/stream/v1/stream/none"]
TABS = ["log", "table", "snapshot", "bootstrap", "producers", "subscriptions", "facts"]
RUN = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 160) + ' ' + node.failureSummary).join(' | '))"""


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


def violations(browser: Browser, axe: Path, theme: Literal["light", "dark"], address: str, click: str) -> list[str]:
    # The policy of the page lets no script in but its own, so it is set aside here.
    with browser.new_context(color_scheme=theme, bypass_csp=True, reduced_motion="reduce") as context:
        page: Page = context.new_page()
        page.goto(address)
        expect(page.locator(".server.live")).to_be_visible()
        if click:
            page.locator(click).first.click()
        page.wait_for_timeout(1000)
        page.add_script_tag(path=axe)
        found: list[str] = page.evaluate(RUN)
        return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", [*VIEWS, *[f"{NAME}?tab={tab}" for tab in TABS]])
@pytest.mark.usefixtures("seen")
def test_every_view_keeps_the_rules(
    browser: Browser, axe: Path, ui: str, view: str, theme: Literal["light", "dark"]
) -> None:
    assert not violations(browser, axe, theme, f"{ui}{view}", "")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("click", [".message", ".tree-tools button.primary", ".buttons button.danger"])
@pytest.mark.usefixtures("seen")
def test_messages_and_dialogs_keep_the_rules(
    browser: Browser, axe: Path, ui: str, click: str, theme: Literal["light", "dark"]
) -> None:
    assert not violations(browser, axe, theme, f"{ui}{NAME}", click)
