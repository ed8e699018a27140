"""Links between pages lead somewhere."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.tooling.docs.page import find_pages
from tests.tooling.docs.visit import ROOT

_MARKDOWN = MarkdownIt("commonmark").enable("table")


def tokens(page: Path) -> Iterator[Token]:
    """Every token of a page, those within lines included."""
    for token in _MARKDOWN.parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def links(page: Path) -> Iterator[str]:
    for token in tokens(page):
        target = str(token.attrs.get("href" if token.type == "link_open" else "src", ""))
        if target and not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as they are made from their words where pages are shown."""
    found = _MARKDOWN.parse(page.read_text(encoding="utf-8"))
    headings = [after.content for token, after in pairwise(found) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    pytest.param(page, link, id=f"{page.relative_to(ROOT)} {link}") for page in find_pages(ROOT) for link in links(page)
]


@pytest.mark.parametrize("page, link", LINKS)
def test_a_link_leads_to_a_file_and_a_heading_of_it(page: Path, link: str) -> None:
    file, _, anchor = link.partition("#")
    target = page.parent / file if file else page
    assert target.exists()
    assert not anchor or anchor in anchors(target)


def test_links_were_found() -> None:
    assert len(LINKS) > 20
