"""The glossary is in order, and the names that it gives are names of the code."""

import re

import pytest

from tests.tooling.docs.visit import ROOT

SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
][2:]
NAMES = sorted({name for *_, code in ROWS for name in re.findall("`([^`]+)`", code)})


def test_each_word_stands_once_and_in_alphabetic_order() -> None:
    words = [word.lower() for word, *_ in ROWS]
    assert len(words) > 50
    assert words == sorted(set(words))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_glossary_is_one_of_the_code(name: str) -> None:
    last = name.rpartition(".")[2]
    assert re.search(rf"(?<![\w-]){re.escape(last)}(?![\w-])", SOURCE)
