"""Mutation testing: break each line changed since a commit (`--base`), and list the mutants that survive.

A mutant is one small change to the code of a module: a comparison turned around, a condition dropped, an entry of a
table deleted, a function emptied. A test that fails kills it; a mutant that survives shows what no test checks. Each
mutant gets a copy of `src/` of its own, in front of the installed package, so the working tree stays as it is. The
general tools of the field neither delete entries of tables nor empty functions, and need a layout of their own.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_RATIO = 5
"""A mutant hangs, and counts as killed, after this multiple of the time of the original code and ten seconds."""

SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
}


class Mutant(NamedTuple):
    """A module with one small change: the place of a node in its tree, and what stands there instead."""

    path: Path
    line: int
    was: str
    becomes: str
    place: int
    replacement: ast.AST

    def __str__(self) -> str:
        """Show the place and the change on one line."""
        return f"{self.path}:{self.line}: {_shorten(self.was)}  →  {_shorten(self.becomes)}"

    def text(self, original: str) -> str:
        """Return the text of the module with the change."""
        tree = ast.parse(original)
        _put(tree, list(ast.walk(tree))[self.place], self.replacement)
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(path: Path, text: str, lines: Container[int]) -> Iterator[Mutant]:
    """Yield every mutant of a module whose change begins on one of these lines."""
    nodes = list(ast.walk(ast.parse(text)))
    excluded = {id(inner) for node in nodes for part in _excluded(node) for inner in ast.walk(part)}
    for place, node in enumerate(nodes):
        if isinstance(node, ast.stmt | ast.expr) and node.lineno in lines and id(node) not in excluded:
            for replacement in _replacements(node):
                yield Mutant(path, node.lineno, ast.unparse(node), ast.unparse(replacement), place, replacement)


def _excluded(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that are not mutated: annotations, imports for types, subscripts (mostly of types)."""
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
        yield node.annotation
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
        yield node.returns
    if isinstance(node, ast.Subscript) and not _is_place(node.slice):
        yield node.slice
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        yield node


def _is_place(index: ast.expr) -> bool:
    """Distinguish an index of a sequence from the arguments of a type."""
    match index:
        case ast.Slice() | ast.UnaryOp() | ast.Constant(value=int()):
            return True
        case ast.BinOp(op=op):
            return type(op) in SWAPS
    return False


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.expr():
            yield from _conditions(node)
            yield from _values(node)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) if ast.unparse(body[-1]) != "...":
            yield _changed(node, body=[ast.Pass()])


def _conditions(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield from (_changed(node, ops=_with(ops, place, other())) for other in SWAPS[type(op)])
            if len(ops) > 1:
                yield _changed(node, ops=ops[1:], left=node.comparators[0], comparators=node.comparators[1:])
                yield _changed(node, ops=ops[:-1], comparators=node.comparators[:-1])
        case ast.BoolOp(values=values):
            yield _changed(node, op=SWAPS[type(node.op)][0]())
            yield from (_changed(node, values=_without(values, place)) for place in range(len(values)))
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand


def _values(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp() if type(node.op) in SWAPS:
            yield _changed(node, op=SWAPS[type(node.op)][0]())
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Dict(keys=keys, values=values) if len(keys) > 1:
            for place in range(len(keys)):
                yield _changed(node, keys=_without(keys, place), values=_without(values, place))
        case ast.Tuple(elts=items, ctx=ast.Load()) | ast.List(elts=items, ctx=ast.Load()) | ast.Set(elts=items):
            if len(items) > 1:
                yield from (_changed(node, elts=_without(items, place)) for place in range(len(items)))


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _with(items: list[ast.cmpop], place: int, item: ast.AST) -> list[ast.AST]:
    return [*items[:place], item, *items[place + 1 :]]


def _without(items: Sequence[ast.AST | None], place: int) -> list[ast.AST | None]:
    return [*items[:place], *items[place + 1 :]]


def _put(tree: ast.AST, target: ast.AST, replacement: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, replacement)
            elif isinstance(value, list):
                value[:] = [replacement if item is target else item for item in value]


def _shorten(text: str) -> str:
    first, *more = text.splitlines()
    return first[:60] + (" …" if more or first[60:] else "")


def changed_lines(base: str) -> Mapping[Path, Container[int]]:
    """Return the lines of each module of ours that differ from a commit, those of the working tree included."""
    diff = _run("git", "diff", "-U0", "--no-renames", base, "--", "src/*.py").splitlines()
    lines: dict[Path, set[int]] = {}
    path = Path()
    for line in diff:
        if line.startswith("+++ "):
            path = Path(line.removeprefix("+++ b/"))
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return {path: changed for path, changed in lines.items() if changed and "_sync" not in path.parts}


def find_tests(path: Path) -> list[str]:
    """Return the test files that carry a module's name, or import a name that it defines; else those of its package."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree = ast.parse((ROOT / path).read_text())
    names = {node.name for node in tree.body if isinstance(node, definitions)} | {path.stem}
    package = path.relative_to("src/everbrook").parts[0]
    files = sorted(ROOT.glob("tests/**/test_*.py"))
    named = [file for file in files if file.stem == f"test_{path.stem}" and package in file.parts]
    using = [file for file in files if file not in named and names & _imported(file, package)]
    chosen = named + using or [file for file in files if package in file.parts] or files
    return [str(file.relative_to(ROOT)) for file in chosen]


@cache
def _imported(file: Path, package: str) -> set[str]:
    """Return what a file imports of one of our packages."""
    imports = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom))
    ours = (node for node in imports if f"{node.module}.".startswith(f"everbrook.{package}."))
    return {alias.name for node in ours for alias in node.names}


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603


class Runner:
    """Runs tests on mutants, in several copies of the code at once."""

    def __init__(self, folder: Path, copies: int, tests: list[str]) -> None:
        self._tests = tests
        self._copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(copies):
            place = folder / str(number)
            shutil.copytree(ROOT / "src", place, ignore=shutil.ignore_patterns("__pycache__"))
            self._copies.put(place)

    def kills(self, mutant: Mutant, timeouts: dict[Path, float]) -> bool:
        """Return whether the tests fail on a mutant, or time out."""
        place = self._copies.get()
        target = place / mutant.path.relative_to("src")
        original = target.read_text()
        try:
            target.write_text(mutant.text(original))
            return not self.passes(place, mutant.path, timeouts[mutant.path])
        finally:
            target.write_text(original)
            self._copies.put(place)

    def seconds(self, path: Path) -> float:
        """Run the tests of a module on the untouched code, and return how long they take."""
        place = self._copies.get()
        began = time.monotonic()
        try:
            if not self.passes(place, path, None):
                sys.exit(f"the tests of {path} fail without a mutant: {' '.join(self._tests or find_tests(path))}")
        finally:
            self._copies.put(place)
        return time.monotonic() - began

    def passes(self, place: Path, path: Path, timeout: float | None) -> bool:
        """Run the tests of a module against one copy of the code."""
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, *(self._tests or find_tests(path))]
        environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, timeout=timeout, capture_output=True, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def main() -> None:
    """Make the mutants of a change, run their tests, and list those that survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="HEAD~1", help="the commit to compare with (default: %(default)s)")
    parser.add_argument(
        "--files", nargs="*", type=Path, help="break every line of these modules, not those of a change"
    )
    parser.add_argument("--tests", nargs="*", default=[], help="run these instead of those that name the module")
    parser.add_argument("--at-most", type=int, default=60, help="how many, drawn at random (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of that draw (default: %(default)s)")
    parser.add_argument("--copies", type=int, default=2, help="how many run at the same time (default: %(default)s)")
    asked = parser.parse_args()
    lines_of = dict.fromkeys(asked.files, range(1, sys.maxsize)) if asked.files else changed_lines(asked.base)
    mutants = [
        mutant for path, lines in lines_of.items() for mutant in mutants_of(path, (ROOT / path).read_text(), lines)
    ]
    drawn = random.Random(asked.seed).sample(mutants, min(asked.at_most, len(mutants)))  # noqa: S311 - replayable
    print(f"{len(mutants)} mutants in {len(lines_of)} modules, {len(drawn)} of them run")
    with TemporaryDirectory(prefix="everbrook-mutants-") as folder, ThreadPoolExecutor(asked.copies) as pool:
        runner = Runner(Path(folder), asked.copies, asked.tests)
        paths = sorted({mutant.path for mutant in drawn})
        timeouts = {
            path: secs * TIMEOUT_RATIO + 10 for path, secs in zip(paths, pool.map(runner.seconds, paths), strict=True)
        }
        killed = pool.map(lambda mutant: runner.kills(mutant, timeouts), drawn)
        survived = [mutant for mutant, dead in zip(drawn, killed, strict=True) if not dead]
    for mutant in sorted(survived, key=str):
        print(f"survived  {mutant}")
    print(f"{len(drawn) - len(survived)} of {len(drawn)} killed")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
