"""The schema for people: the tables of ``docs/settings.md``, and ``config/default.toml``.

``python -m everbrook.settings.reference`` rewrites both in the current folder; a test fails while they are outdated.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from everbrook.settings.fields import FIELDS, SECTIONS, Field, format_value

PAGE = Path("docs/settings.md")
DEFAULT_FILE = Path("config/default.toml")

_COMMENT_WIDTH = 100
_TABLES = re.compile(r"(?<=<!-- settings: begin -->\n).*(?=<!-- settings: end -->)", re.DOTALL)
_DEFAULT_FILE_HEAD = """\
# Every setting with its default. Files that are read after this one, the environment and flags win over it:
# `port` in `[server]` is DS_SERVER__PORT. `everbrook config show` says which of them set each value.

everbrook = true
"""


def format_default_file() -> str:
    """Write all defaults as TOML, each under its meaning."""
    sections = ("\n".join(_section_lines(section)) for section in SECTIONS)
    return _DEFAULT_FILE_HEAD + "\n" + "\n\n".join(sections) + "\n"


def format_tables() -> str:
    """Write one table for each section."""
    return "\n" + "\n\n".join("\n".join(_table_lines(section)) for section in SECTIONS) + "\n\n"


def render_page(page: str) -> str:
    """Return the reference page with its tables brought up to date."""
    return _TABLES.sub(lambda _: format_tables(), page)


def _fields_of(section: str) -> list[Field]:
    return [field for field in FIELDS.values() if field.section == section]


def _section_lines(section: str) -> Iterator[str]:
    yield f"[{section}]"
    for field in _fields_of(section):
        yield ""
        yield from (f"# {line}" for line in textwrap.wrap(field.description, _COMMENT_WIDTH, break_on_hyphens=False))
        yield _assignment(field)


def _assignment(field: Field) -> str:
    """Write a default. TOML can't express that there is none: such a line is a comment with an example."""
    if field.optional:
        return f"# {field.key} = {format_value(field.example)}"
    return f"{field.key} = {format_value(field.default)}"


def _table_lines(section: str) -> Iterator[str]:
    yield f"### {section}"
    yield ""
    yield "| setting | environment | default | must be | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for field in _fields_of(section):
        default = f"`{format_value(field.default)}`"
        yield f"| `{field.name}` | `{field.env}` | {default} | {field.expected} | {field.description} |"


def write() -> None:
    """Bring the page and the file of the current folder up to date."""
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    DEFAULT_FILE.write_text(format_default_file(), encoding="utf-8")


if __name__ == "__main__":
    write()
