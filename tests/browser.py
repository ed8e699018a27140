"""A real browser: a Chromium of this system, or the one that playwright installed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run one, or skip the test where there is none."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        except Error as error:
            if executable is not None:
                raise
            pytest.skip(f"no Chromium: install one ({', '.join(BROWSERS)}), or `playwright install chromium`: {error}")
        yield started
        started.close()
