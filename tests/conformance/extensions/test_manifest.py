"""The table of sentences and the tests: every sentence has its tests, and every test its sentence."""

import ast
import re
from pathlib import Path

import pytest
from msgspec import Struct

FOLDER = Path(__file__).parent
ROW = re.compile(r"^\| (\d[\d.]*) \| (.+) \| (.+) \|$", re.MULTILINE)
CITED = re.compile(r"002 §([\d.]*\d)")


class Row(Struct, frozen=True):
    """A sentence of 002 and the tests that hold a server to it."""

    section: str
    sentence: str
    tests: str

    @property
    def names(self) -> list[str]:
        return re.findall(r"`(test_\w+)`", self.tests)


ROWS = [Row(*row) for row in ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))]


def written(folder: Path) -> dict[str, str]:
    """The tests in the files of a folder that need a server, each with its docstring."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("test_*.py"))]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    tests = [function for function in functions if function.name.startswith("test_")]
    assert len({test.name for test in tests}) == len(tests), "two tests have the same name"
    return {test.name: ast.get_docstring(test) or "" for test in tests}


CITING = {name: cited[1] for name, text in written(FOLDER).items() if (cited := CITED.match(text))}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.section)
def test_every_sentence_has_tests_that_cite_its_section(row: Row) -> None:
    assert {CITING.get(name, "no such test") for name in row.names} <= {row.section}
    assert row.names or row.tests == "for clients" or (FOLDER / row.tests.split("`")[1]).is_file()


def test_every_test_that_cites_002_has_its_sentence() -> None:
    assert set(CITING) - {name for row in ROWS for name in row.names} == set()


def test_every_section_with_rules_is_there() -> None:
    sections = {"1": 6, "2": 6, "3": 4, "4": 0, "5": 0}
    numbered = {f"{section}.{part}" for section, parts in sections.items() for part in range(1, parts + 1)}
    assert {row.section for row in ROWS} >= numbered | {"4", "5"}


def test_every_addition_says_that_it_is_one() -> None:
    additions = written(FOLDER / "additions")
    assert additions
    assert [name for name, text in additions.items() if not text.startswith("Ours: ")] == []
