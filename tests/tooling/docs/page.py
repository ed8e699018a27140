"""What a page holds that can be run: its blocks of code, each with what the comment before it says.

Every block counts, whatever its language, so that none can escape the tests: a CommonMark parser finds them, the
indented ones too. The rules for authors are in CONTRIBUTING.md.
"""

import re
from enum import StrEnum
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from msgspec.structs import replace

PAGES = (
    "*.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "bench/README.md",
    "soak/README.md",
    "tests/conformance/*/README.md",
)

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->\s*\Z", re.DOTALL)
_HIDDEN = re.compile(r"(python|sh)\n(.*)\Z", re.DOTALL)
_NOT_RUN = re.compile(r"not run: (.+)\Z")
_FILE = re.compile(r"(?:#|//|<!--) ?([\w./-]+\.\w+)(?: -->)?\Z")


class Note(StrEnum):
    """What the comment before a block says of it, besides the reason not to run it."""

    NONE = ""
    UNTIL_INTERRUPTED = "until interrupted"
    OUTPUT = "output"


class Block(Struct, frozen=True):
    """A block of code. `line` is that of its first line of code, from 1."""

    language: str
    code: str
    line: int
    note: Note = Note.NONE
    not_run: str = ""

    @property
    def file(self) -> str:
        """The name under which the reader is to save it: its first line, if that is a comment with nothing else."""
        found = _FILE.match(self.code.split("\n", 1)[0].strip())
        return found[1] if found else ""


class UnknownNote(ValueError):
    """A comment before a block looks like a note on it, and is none."""


def find_pages(root: Path) -> list[Path]:
    """Give every page of a project, in order."""
    return sorted({path for pattern in PAGES for path in root.glob(pattern)})


def parse_page(text: str) -> list[Block]:
    """Give the blocks of a page, those in comments included."""
    blocks: list[Block] = []
    before: Token | None = None
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in {"fence", "code_block"}:
            blocks.append(_noted(_block(token), before))
        elif token.type == "html_block":
            blocks += _hidden(token)
        before = token
    return blocks


def _block(token: Token) -> Block:
    language, *_ = token.info.split() or [""]
    return Block(language, token.content, _first_line(token) + (token.type == "fence"))


def _first_line(token: Token) -> int:
    assert token.map is not None, "a block knows where it stands"
    return token.map[0] + 1


def _hidden(token: Token) -> list[Block]:
    """The block within a comment: preparation that the reader need not see."""
    comment = _COMMENT.match(token.content)
    found = comment and _HIDDEN.match(comment[1])
    return [Block(found[1], found[2] + "\n", _first_line(token) + 1)] if found else []


def _noted(block: Block, before: Token | None) -> Block:
    comment = before and before.type == "html_block" and _COMMENT.match(before.content)
    if not comment or _HIDDEN.match(comment[1]):
        return block
    if reason := _NOT_RUN.match(comment[1]):
        return replace(block, not_run=reason[1])
    try:
        return replace(block, note=Note(comment[1]))
    except ValueError:
        known = ", ".join(f"'{note}'" for note in Note if note)
        message = (
            f"line {block.line}: the comment before a block must be {known} or 'not run: REASON', got '{comment[1]}'"
        )
        raise UnknownNote(message) from None
