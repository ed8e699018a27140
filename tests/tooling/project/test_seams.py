"""Tests reach the code by arguments and public names.

A patch of a module's constant by its name survives a refactoring without effect: the name may move, the code reads
another one, and the test passes for nothing. Sizes, intervals and collaborators are arguments instead.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OURS = {"everbrook", "bench", "soak", "tools", "tests", "examples"}
SEARCHED = ("tests", "bench", "soak", "tools", "examples")
PATCHES = {"setattr", "delattr", "setitem", "delitem", "patch", "object", "dict", "multiple"}
"""What pytest, `unittest.mock` and Python call their ways to replace something."""


def test_no_test_patches_a_constant_by_its_name() -> None:
    files = sorted(file for folder in SEARCHED for file in ROOT.glob(f"{folder}/**/*.py") if not _is_foreign(file))
    assert len(files) > 500
    assert [f"{file.relative_to(ROOT)}:{line} {name}" for file in files for line, name in _patched(file)] == []


@pytest.mark.parametrize(
    "patch",
    [
        'monkeypatch.setattr(expiry, "SLICE", 1)',
        'monkeypatch.setattr(other, "SLICE", 1)',
        'monkeypatch.setattr(everbrook.engine.expiry, "SLICE", 1)',
        'monkeypatch.setattr("everbrook.engine.expiry.SLICE", 1)',
        'monkeypatch.setattr(target=expiry, name="SLICE", value=1)',
        'monkeypatch.setattr(sys.modules["everbrook.engine.expiry"], "SLICE", 1)',
        'monkeypatch.setattr(import_module("everbrook.engine.expiry"), "SLICE", 1)',
        'monkeypatch.delattr(expiry, "SLICE")',
        'monkeypatch.setitem(expiry.SLICE, "a", 1)',
        'monkeypatch.setitem(SLICE, "a", 1)',
        'setattr(expiry, "SLICE", 1)',
        'mock.patch("everbrook.engine.expiry.SLICE", 1)',
        'patch.object(expiry, "SLICE", 1)',
        "patch.dict(expiry.SLICE, a=1)",
        "patch.multiple(expiry, SLICE=1)",
        "expiry.SLICE = 1",
        "expiry.SLICE += 1",
        "everbrook.engine.expiry.SLICE, rest = 1, 2",
        'expiry.SLICE["a"] = 1',
        'SLICE["a"] = 1',
    ],
)
def test_a_patched_constant_is_found_however_it_is_patched(patch: str) -> None:
    assert set(_patches(IMPORTS + patch)) == {(IMPORTS.count("\n") + 1, "everbrook.engine.expiry.SLICE")}


@pytest.mark.parametrize(
    "patch",
    [
        'monkeypatch.setattr(socket, "SLICE", 1)',
        'monkeypatch.setattr(Deadlines, "look", None)',
        'monkeypatch.setitem(os.environ, "SLICE", 1)',
        'monkeypatch.setenv("SLICE", "1")',
        'given["SLICE"] = 1',
        "TUNING = Tuning(slice_streams=expiry.SLICE)",
    ],
)
def test_nothing_else_is_taken_for_a_patched_constant(patch: str) -> None:
    assert list(_patches(IMPORTS + patch)) == []


def test_a_constant_of_a_class_is_one_too() -> None:
    assert [name for _, name in _patches(IMPORTS + "Deadlines.SLICE = 1")] == [
        "everbrook.engine.expiry.Deadlines.SLICE"
    ]


IMPORTS = """
import os, socket, sys
import everbrook.engine.expiry
import everbrook.engine.expiry as other
from importlib import import_module
from unittest import mock
from unittest.mock import patch
from everbrook.engine import expiry
from everbrook.engine.expiry import SLICE, Deadlines
"""


def _is_foreign(file: Path) -> bool:
    return "node_modules" in file.parts


def _patched(file: Path) -> Iterator[tuple[int, str]]:
    return _patches(file.read_text(encoding="utf-8"))


def _patches(text: str) -> Iterator[tuple[int, str]]:
    """Give the constants of ours that a file replaces or changes, with their lines."""
    tree = ast.parse(text)
    imported = dict(_imported(tree))
    for node in ast.walk(tree):
        for name in _replaced(node, imported):
            if name.partition(".")[0] in OURS and name.rpartition(".")[2].isupper():
                yield node.lineno, name  # type: ignore[attr-defined] # calls and assignments have one


def _replaced(node: ast.AST, imported: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets):
            yield from (name for target in targets for name in _assigned(target, imported))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _assigned(target, imported)
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(called)) if called in PATCHES:
            given = [*node.args, *(each.value for each in node.keywords if each.arg in {"target", "name", "attribute"})]
            yield from _given(given, [each.arg for each in node.keywords if each.arg], imported)


def _assigned(target: ast.expr, imported: dict[str, str]) -> Iterator[str]:
    """A name of the module itself is its own: only what is reached through another one is a patch."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from (name for part in parts for name in _assigned(part, imported))
        case ast.Attribute():
            yield _dotted(target, imported)
        case ast.Subscript(value=ast.Attribute() | ast.Name() as table):
            yield _dotted(table, imported)


def _given(given: list[ast.expr], keywords: list[str], imported: dict[str, str]) -> Iterator[str]:
    """Names by their path, of an object by their name or as keywords, or as the object itself."""
    match given:
        case [ast.Constant(str() as path), *_]:
            yield path
        case [place, ast.Constant(str() as name), *_]:
            yield from (f"{_dotted(place, imported)}.{name}", _dotted(place, imported))
        case [place, *_]:
            yield from (_dotted(place, imported), *(f"{_dotted(place, imported)}.{name}" for name in keywords))


def _dotted(node: ast.expr, imported: dict[str, str]) -> str:
    """Give the whole name of what an expression is, or an empty text."""
    match node:
        case ast.Name(name):
            return imported.get(name, "")
        case ast.Attribute(value=place, attr=name):
            return f"{_dotted(place, imported)}.{name}"
        case ast.Subscript(slice=ast.Constant(str() as name)) | ast.Call(args=[ast.Constant(str() as name)]):
            return name
    return ""


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)
