"""A server that asks who one is: the page takes a token or an API key, keeps it to itself, and goes on with it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from everbrook import Client
from tests.kit.server_process import EVERBROOK, ServerProcess, environment, serving
from tests.ui.conftest import Complaints


def key_for(folder: Path, scope: str) -> str:
    command = [EVERBROOK, "apikey", "create", "--file", "keys.json", "--scope", scope]
    made = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    return made.stdout.strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def admin(folder: Path) -> str:
    return key_for(folder, "admin:/")


@pytest.fixture(scope="module")
def reader(folder: Path) -> str:
    return key_for(folder, "read:/v1/stream/open")


@pytest.fixture(scope="module")
def passing(folder: Path) -> str:
    """A key that is going to be revoked."""
    return key_for(folder, "read:/v1/stream/open")


@pytest.fixture(scope="module")
def server(folder: Path, admin: str, reader: str, passing: str) -> Iterator[ServerProcess]:
    with serving(folder, DS_AUTH__API_KEYS_PATH="keys.json") as process:
        with Client(f"http://{process.address[0]}:{process.address[1]}", headers=bearer(admin)) as client:
            client.stream("open/talk").create()
            client.stream("open/talk").append({"for": "you"})
            client.stream("closed/talk").create()
        yield process


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def give(page: Page, token: str) -> None:
    page.get_by_label("Token or API key").fill(token)
    page.get_by_role("button", name="Use it").click()


def test_a_key_opens_what_it_may_read_and_nothing_else(
    page: Page, ui: str, reader: str, complaints: Complaints
) -> None:
    page.goto(ui)
    page.get_by_role("button", name="Give a token or an API key").click()
    give(page, reader)
    expect(page.get_by_role("option", name="open/")).to_be_visible()
    expect(page.get_by_role("option", name="closed/")).to_have_count(0)
    complaints.said.clear()


def test_a_stream_that_was_refused_is_shown_once_there_is_a_key(
    page: Page, ui: str, reader: str, complaints: Complaints
) -> None:
    page.goto(f"{ui}#/stream/v1/stream/open/talk")
    page.get_by_role("alert").get_by_role("button", name="Give a token").click()
    give(page, reader)
    expect(page.locator(".message")).to_contain_text("for")
    expect(page.locator(".state.live")).to_be_visible()
    complaints.said.clear()


@pytest.mark.parametrize("view", ["#/pipeline", "#/server", "#/stream/v1/stream/closed/talk?tab=table"])
def test_every_view_says_that_a_key_is_not_enough(
    page: Page, ui: str, reader: str, view: str, complaints: Complaints
) -> None:
    page.goto(ui)
    page.get_by_role("button", name="Give a token or an API key").click()
    give(page, reader)
    expect(page.locator(".server.live")).to_be_visible()
    page.goto(f"{ui}{view}")
    refused = page.get_by_role("button", name="Give another token").or_(page.get_by_text("no progress stream"))
    expect(refused.first).to_be_visible()
    complaints.said.clear()


def test_a_key_that_is_revoked_while_it_is_used_is_asked_for_anew(
    page: Page, ui: str, folder: Path, reader: str, passing: str, complaints: Complaints
) -> None:
    page.goto(f"{ui}#/stream/v1/stream/open/talk")
    page.get_by_role("alert").get_by_role("button", name="Give a token").click()
    give(page, passing)
    expect(page.locator(".state.live")).to_be_visible()
    command = [EVERBROOK, "apikey", "revoke", passing.split("_")[1], "--file", "keys.json"]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    page.get_by_role("alert").get_by_role("button", name="Give another token").click(timeout=30_000)
    give(page, reader)
    expect(page.locator(".state.live")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    complaints.said.clear()


def test_a_token_is_in_no_address_and_in_nothing_that_stays(
    page: Page, ui: str, reader: str, complaints: Complaints
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{ui}#/stream/v1/stream/open/talk")
    page.get_by_role("alert").get_by_role("button", name="Give a token").click()
    give(page, reader)
    expect(page.locator(".message")).to_be_visible()
    assert not [url for url in [*asked, page.url] if reader in url]
    assert reader not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    assert not [said for said in complaints.said if reader in said]
    page.locator(".message").click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "$EVERBROOK_TOKEN" in page.evaluate("navigator.clipboard.readText()")
    complaints.said.clear()
