"""Prints measures of the layout of the code; with `--base REV`, those of that revision beside them.

They are aims, not gates: each measure counts a form, and only a reader can judge the content. `--names` lists the
counted names. The generated side of the client counts in lines and files, and in no other measure.
"""

import argparse
import ast
import io
import re
import statistics
import subprocess
import tarfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = "src", "tests"
GENERATED = {"_sync", "sync"}
FOREIGN = {"node_modules", "__pycache__"}
NOUNS = {"listing", "mapping", "routing", "string"}
"""Nouns of the field that end like gerunds."""

TUPLE_FIELDS = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
"""Names of `NamedTuple` that begin with an underscore and are public."""

_SUPPRESSION = re.compile(r"#\s*(noqa|type: ignore|pragma|fmt|ruff|mypy|nosec|pylint|isort)\b")


class Module(NamedTuple):
    path: PurePosixPath
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The dotted name; that of its folder for an `__init__`."""
        parts = self.path.with_suffix("").parts[self.path.parts[0] == SOURCE :]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> str:
        """The folder below `everbrook` that holds the module, however deeply."""
        return self.path.parts[2] if len(self.path.parts) > 3 else "everbrook itself"  # noqa: PLR2004 - src, everbrook


class Measure(NamedTuple):
    name: str
    value: float
    names: list[str]


def measure(files: dict[str, str]) -> list[Measure]:
    """Return the measures of a tree, which is the texts of its files by their paths."""
    modules = [Module(PurePosixPath(path), text, ast.parse(text)) for path, text in sorted(files.items())]
    source = [module for module in modules if module.path.parts[0] == SOURCE]
    own = [module for module in source if GENERATED.isdisjoint(module.path.parts)]
    tests = [module for module in modules if module.path.parts[0] == TESTS]
    counted = {
        "classes split over files by inheritance": split_classes(own),
        "file names that are gerunds": gerunds(own),
        "file names that occur twice in a package": repeated_names(own),
        "suppressions": [f"{module.path}:{line}" for module in own for line, text in _comments(module)
                         if _SUPPRESSION.match(text)],
        "modules imported by exactly one other": single_use(own),
        "private accesses in tests": [each for module in tests if GENERATED.isdisjoint(module.path.parts)
                                      for each in private_accesses(module)],
    }  # fmt: skip
    return [*sizes(source), *(Measure(name, len(names), names) for name, names in counted.items()), comments(own)]


def sizes(modules: list[Module]) -> Iterator[Measure]:
    packages = defaultdict(list)
    for module in modules:
        packages[module.package].append(len(module.text.splitlines()))
    packages["all of src"] = [lines for package in packages.values() for lines in package]
    for package, lines in packages.items():
        yield Measure(f"lines, {package}", sum(lines), [])
        yield Measure(f"files, {package}", len(lines), [])
    yield Measure("median file", statistics.median(packages["all of src"] or [0]), [])
    longest = max(modules, key=lambda module: len(module.text.splitlines()), default=None)
    yield Measure("longest file", max(packages["all of src"], default=0), [str(longest.path)] if longest else [])


def split_classes(modules: list[Module]) -> list[str]:
    """Classes whose only subclass is in another file of the same folder, the only file that imports them."""
    places = {module.name: module for module in modules}
    names = {module.name: dict(_names(module)) for module in modules}

    def origin(module: str, name: str) -> str:
        """Return the place of a name's definition, through the packages that export it."""
        found = names.get(module, {}).get(name, "")
        return origin(*found.rpartition(".")[::2]) if found not in {"", f"{module}.{name}"} else f"{module}.{name}"

    subclasses, importers = defaultdict(list), defaultdict(set)
    for module in modules:
        if module.path.name != "__init__.py":
            for name in names[module.name]:
                importers[origin(module.name, name)].add(module.name)
        for node in ast.walk(module.tree):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                base = base.value if isinstance(base, ast.Subscript) else base  # noqa: PLW2901 - `Base[T]`
                if isinstance(base, ast.Name):
                    subclasses[origin(module.name, base.id)].append(module.name)
    return sorted(
        base
        for base, (child, *others) in subclasses.items()
        if not others
        and (home := base.rpartition(".")[0]) in places
        and home != child
        and places[home].path.parent == places[child].path.parent
        and importers[base] == {home, child}
    )


def gerunds(modules: list[Module]) -> list[str]:
    return [
        str(module.path)
        for module in modules
        if (word := module.path.stem.rpartition("_")[2]).endswith("ing") and word not in NOUNS
    ]


def repeated_names(modules: list[Module]) -> list[str]:
    """Each name once, with its package."""
    found = Counter((module.package, module.path.name) for module in modules if module.path.name != "__init__.py")
    return [f"{package}: {name}" for (package, name), times in sorted(found.items()) if times > 1]


def single_use(modules: list[Module]) -> list[str]:
    """Modules that exactly one other module imports. Modules that an `__init__` exports are left out."""
    known = {module.name: module for module in modules}
    importers = defaultdict(set)
    for module in modules:
        for target in _imports(module):
            found = target if target in known else target.rpartition(".")[0]
            importers[found].add(module.path.name if module.path.name == "__init__.py" else module.name)
    return sorted(
        f"{name}, by {next(iter(users))}"
        for name, users in importers.items()
        if name in known and known[name].path.name != "__init__.py" and len(users) == 1 and "__init__.py" not in users
    )


def private_accesses(module: Module) -> Iterator[str]:
    """Uses of names with a leading underscore that the file does not define itself."""
    nodes = list(ast.walk(module.tree))
    own = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    own |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own | TUPLE_FIELDS:
            if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
                yield f"{module.path}:{node.lineno} {node.attr}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("everbrook"):
            yield from (f"{module.path}:{node.lineno} {each.name}" for each in node.names if _is_private(each.name))


def comments(modules: list[Module]) -> Measure:
    """Lines of comments that are no suppressions, per 100 lines of code without comments, docstrings and blanks."""
    found = [f"{module.path}:{line}" for module in modules for line, text in _comments(module)
             if not _SUPPRESSION.match(text)]  # fmt: skip
    code = sum(len(set(_code_lines(module))) for module in modules)
    return Measure("comments per 100 lines of code", round(100 * len(found) / max(1, code), 1), found)


def _comments(module: Module) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _code_lines(module: Module) -> Iterator[int]:
    texts = {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for number, line in enumerate(module.text.splitlines(), 1):
        if number not in texts and line.strip() and not line.strip().startswith("#"):
            yield number


def _names(module: Module) -> Iterator[tuple[str, str]]:
    """The names of a module's classes and imports, and where each comes from."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{module.name}.{node.name}"
        elif isinstance(node, ast.ImportFrom):
            yield from ((each.asname or each.name, f"{node.module}.{each.name}") for each in node.names)


def _imports(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def working_tree(root: Path) -> dict[str, str]:
    paths = [path for folder in (SOURCE, TESTS) for path in sorted((root / folder).rglob("*.py"))]
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if FOREIGN.isdisjoint(path.parts)
    }


def revision(root: Path, name: str) -> dict[str, str]:
    archive = subprocess.run(  # noqa: S603 - git, with a revision that the caller names
        ["git", "archive", "--format=tar", "--", name, SOURCE, TESTS],  # noqa: S607 - the git of the path
        cwd=root, capture_output=True, check=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name: file.read().decode()
            for member in tar
            if member.name.endswith(".py") and (file := tar.extractfile(member))
        }


def main(root: Path = ROOT, *arguments: str) -> None:
    parser = argparse.ArgumentParser(description="Print measures of the layout of the code.")
    parser.add_argument("--base", metavar="REV", help="also measure a revision")
    parser.add_argument("--names", action="store_true", help="list the counted names of the working tree")
    options = parser.parse_args(arguments)
    columns = {options.base: measure(revision(root, options.base))} if options.base else {}
    columns["now"] = measure(working_tree(root))
    rows = dict.fromkeys(each.name for column in columns.values() for each in column)
    values = {title: {each.name: each.value for each in column} for title, column in columns.items()}
    print(" ".join([f"{'':44}", *(f"{title:>12.12}" for title in values)]))
    for row in rows:
        print(" ".join([f"{row:44}", *(f"{column.get(row, 0):12,g}" for column in values.values())]))
    for each in columns["now"] if options.names else ():
        if each.names:
            print(f"\n{each.name}:", *each.names, sep="\n  ")


if __name__ == "__main__":
    import sys

    main(ROOT, *sys.argv[1:])
