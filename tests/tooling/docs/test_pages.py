"""Every block of code in the README and the pages does what it says."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from tests.tooling.docs.interpreter import end_java
from tests.tooling.docs.page import Block, find_pages, parse_page
from tests.tooling.docs.ports import Ports
from tests.tooling.docs.visit import ROOT, Visit

PAGES = {str(path.relative_to(ROOT)): parse_page(path.read_text(encoding="utf-8")) for path in find_pages(ROOT)}


def name(page: str, block: Block) -> str:
    told = f" (not run: {block.not_run})" if block.not_run else ""
    return f"{page}:{block.line} {block.language}{told}"


BLOCKS = [
    pytest.param(page, index, id=name(page, block))
    for page, blocks in PAGES.items()
    for index, block in enumerate(blocks)
]


class Reader:
    """Visits one page at a time, and stays on it for as long as it is asked about.

    A JVM takes long to start and to warm up, and keeps the folder and the environment that it was started with. So
    pages with a session of Spark share one: each finds the same folder, empty again, and the same ports.
    """

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._spark = folders.mktemp("spark"), Ports(SystemRandom())
        self._page = ""
        self.visit: Visit | None = None

    def on(self, page: str) -> Visit:
        if self.visit is None or self._page != page:
            self.leave()
            folder, ports = self._spark if uses_spark(page) else (self._folders.mktemp("page"), None)
            remove_content(folder)
            self._page, self.visit = page, Visit(page, PAGES[page], folder, ports)
        return self.visit

    def leave(self) -> None:
        if self.visit is not None:
            self.visit.end()


def uses_spark(page: str) -> bool:
    """Whether Python on a page may start Java."""
    return any("spark" in block.code for block in PAGES[page] if block.language == "python")


def remove_content(folder: Path) -> None:
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    end_java()  # of tests before: it has their environment
    reader = Reader(tmp_path_factory)
    yield reader
    reader.leave()
    end_java()


@pytest.mark.parametrize("page, index", BLOCKS)
def test_the_block_does_what_it_says(reader: Reader, page: str, index: int) -> None:
    if reason := PAGES[page][index].not_run:
        pytest.skip(reason)
    reader.on(page).reach(index)


def test_the_pages_that_users_begin_with_are_among_those_found() -> None:
    assert {Path("README.md"), Path("docs/settings.md"), Path("bench/README.md")} <= {Path(page) for page in PAGES}


def test_nearly_every_block_is_run() -> None:
    """A reason not to run one is easily found: they are to stay few."""
    blocks = [block for page in PAGES.values() for block in page if block.language != "text"]
    assert sum(bool(block.not_run) for block in blocks) <= len(blocks) / 10
