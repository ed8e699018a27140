"""A real browser for the tests. A machine that can't have one skips them, but CI fails."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest
from playwright.sync_api import Browser, expect

from tools.browser import BrowserUnavailable, launched

expect.set_options(timeout=60_000)


@contextmanager
def chromium(launch: Callable[[], AbstractContextManager[Browser]] = launched) -> Iterator[Browser]:
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(launch())
        except BrowserUnavailable as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))
        yield browser
