"""Every file that the map of the code names is there."""

import re

import pytest

from tests.tooling.docs.visit import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
FOLDERS = (ROOT / "src/everbrook", ROOT)
NAMED = sorted(set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", PAGE)))
METHODS = sorted(set(re.findall(r"`([A-Z]\w+)\.(\w+)`", PAGE)))
SOURCES = [path.read_text(encoding="utf-8") for path in sorted(FOLDERS[0].rglob("*.py"))]


@pytest.mark.parametrize("name", NAMED)
def test_a_file_on_the_map_is_there(name: str) -> None:
    assert any((folder / name).exists() for folder in FOLDERS)


@pytest.mark.parametrize("owner, method", METHODS)
def test_a_method_on_the_map_is_in_the_code(owner: str, method: str) -> None:
    assert any(f"\nclass {owner}" in text and f"def {method}(" in text for text in SOURCES)


def test_the_map_names_files_of_every_layer() -> None:
    layers = {folder.name for folder in FOLDERS[0].iterdir() if (folder / "__init__.py").is_file()}
    assert layers - {name.partition("/")[0] for name in NAMED} == set()
    assert len(METHODS) >= 4
