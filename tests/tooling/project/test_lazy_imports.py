"""Every package that loads its names when they are first used lists them twice: both lists agree, and all load."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"
LAZY = sorted(path for path in SOURCE.glob("everbrook/**/*.py") if "= lazy_imports(" in path.read_text())


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", LAZY, ids=_module)
def test_the_names_for_type_checkers_are_those_that_load(path: Path) -> None:
    tree = ast.parse(path.read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.name: node.module for node in imports for alias in node.names}
    module = import_module(_module(path))
    loaded = {name: getattr(module, name) for name in set(dir(module)) - {*vars(module)} | {*typed}}
    assert set(loaded) == set(typed)
    assert {name: getattr(import_module(str(place)), name) for name, place in typed.items()} == loaded


def test_a_name_that_is_not_listed_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'everbrook' has no attribute 'nothing'"):
        import_module("everbrook").nothing  # noqa: B018
