"""Tests reach the code by arguments and public names.

A patch of a module's constant by its name survives a refactoring without effect: the name may move, the code reads
another one, and the test passes for nothing. Sizes, intervals and collaborators are arguments instead.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = {"everbrook": ROOT / "src", "bench": ROOT, "soak": ROOT, "tools": ROOT, "tests": ROOT}


def test_no_test_patches_a_constant_by_its_name() -> None:
    files = sorted(ROOT.glob("tests/**/*.py"))
    patches = [f"{file.relative_to(ROOT)}:{line} {name}" for file in files for line, name in _patches(file.read_text())]
    assert not [patch for patch in patches if patch.rsplit(".", 1)[1].isupper()]


def test_a_patched_constant_is_found_however_it_is_named() -> None:
    text = """
from everbrook.engine import sweep
import everbrook.engine.sweep as other
monkeypatch.setattr(sweep, "SLICE", 1)
patch.setattr(other, "SLICE", 1)
monkeypatch.setattr("everbrook.engine.sweep.SLICE", 1)
monkeypatch.setattr(socket, "SLICE", 1)
"""
    assert list(_patches(text)) == [(line, "everbrook.engine.sweep.SLICE") for line in (4, 5, 6)]


def _patches(text: str) -> Iterator[tuple[int, str]]:
    """Give the names in modules of ours that a test file replaces."""
    tree = ast.parse(text)
    modules = dict(_imported_modules(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Name(target), ast.Constant(str() as name), *_]):
                if target in modules:
                    yield node.lineno, f"{modules[target]}.{name}"
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(str() as path), *_]):
                if _is_module(path.rpartition(".")[0]):
                    yield node.lineno, path


def _imported_modules(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if _is_module(package + alias.name):
                    yield alias.asname or alias.name, package + alias.name


def _is_module(name: str) -> bool:
    parts = name.split(".")
    if parts[0] not in OURS:
        return False
    path = OURS[parts[0]].joinpath(*parts)
    return path.with_suffix(".py").is_file() or path.is_dir()
