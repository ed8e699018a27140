"""Checks the statements of the project about itself: documents exist, pins agree, the version is in the changelog.

Each check yields its problems as sentences.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REQUIRED_DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "SPEC_VERSION.md",
    "docs/compatibility.md",
    "docs/decisions.md",
    "docs/ecosystem-interop.md",
    "docs/gaps.md",
    "docs/protocol-governance.md",
)
"""The artifacts that `docs/protocol-governance.md` promises."""

NODE_PROJECTS = ("tests/conformance/official", "bench", "tests/conformance/client")
"""The folders whose `package.json` asks for a pinned package."""

_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
_PACKAGE_PIN = re.compile(r"`(@[\w.-]+/[\w.-]+)`\s*\|\s*`(\d[\w.-]*)`")
_CHANGELOG_VERSION = re.compile(r"^## \[?(\d[\w.]*)", re.MULTILINE)
_REQUIREMENT_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


def missing_documents(root: Path) -> Iterator[str]:
    for name in REQUIRED_DOCUMENTS:
        if not _read(root / name).strip():
            yield f"{name} is missing or empty"


def unpinned_protocol(root: Path) -> Iterator[str]:
    """A commit is pinned, never a branch; the compatibility page names the same one."""
    commits = set(_COMMIT.findall(_read(root / "SPEC_VERSION.md")))
    if len(commits) != 1:
        yield f"SPEC_VERSION.md must pin exactly one protocol commit by its 40 digits, found {len(commits)}"
        return
    if not commits <= set(_COMMIT.findall(_read(root / "docs/compatibility.md"))):
        yield f"docs/compatibility.md does not name the pinned protocol commit {commits.pop()}"


def differing_packages(root: Path) -> Iterator[str]:
    """What SPEC_VERSION.md pins is what each Node project asks for, locks and has installed."""
    pins = dict(_PACKAGE_PIN.findall(_read(root / "SPEC_VERSION.md")))
    if not pins:
        yield "SPEC_VERSION.md pins no package as | `@scope/name` | `version` |"
    documented = dict(_PACKAGE_PIN.findall(_read(root / "docs/compatibility.md")))
    for name, pinned in pins.items():
        if documented.get(name) != pinned:
            yield f"docs/compatibility.md says {name} {documented.get(name)}, SPEC_VERSION.md pins {pinned}"
        found = [use for project in NODE_PROJECTS for use in _uses(root, project, name)]
        if not found:
            yield f"SPEC_VERSION.md pins {name}, but no package.json of {' or '.join(NODE_PROJECTS)} has it"
        for where, version in found:
            if version != pinned:
                yield f"{where} has {name} {version}, SPEC_VERSION.md pins {pinned}"


def unlocked_requirements(root: Path) -> Iterator[str]:
    """Every requirement of pyproject.toml has its version in the lock."""
    project = _toml(root / "pyproject.toml")
    groups = project.get("dependency-groups", {}).values()
    required = [*project["project"].get("dependencies", []), *(entry for group in groups for entry in group)]
    locked = {_requirement_name(line) for line in _read(root / "requirements-dev.lock").splitlines()}
    for requirement in required:
        if _requirement_name(requirement) not in locked:
            yield f"requirements-dev.lock has no version for {requirement!r}: run `make lock`"


def undescribed_version(root: Path) -> Iterator[str]:
    """The newest version of the changelog, an Unreleased section aside, is the package's."""
    version = _toml(root / "pyproject.toml")["project"]["version"]
    newest = _CHANGELOG_VERSION.search(_read(root / "CHANGELOG.md"))
    if newest is None or newest[1] != version:
        said = f"starts with {newest[1]}" if newest else "names no version"
        yield f"CHANGELOG.md {said}, pyproject.toml has {version}"


CHECKS: tuple[Callable[[Path], Iterator[str]], ...] = (
    missing_documents,
    unpinned_protocol,
    differing_packages,
    unlocked_requirements,
    undescribed_version,
)


def problems(root: Path) -> list[str]:
    return [problem for check in CHECKS for problem in check(root)]


def _uses(root: Path, project: str, name: str) -> Iterator[tuple[str, str]]:
    """Where a Node project states a version of the package: asked for, locked, installed."""
    asked = _json(root / project / "package.json")
    for section in ("dependencies", "devDependencies"):
        if name in asked.get(section, {}):
            yield f"{project}/package.json", asked[section][name]
    locked = _json(root / project / "package-lock.json").get("packages", {})
    if f"node_modules/{name}" in locked:
        yield f"{project}/package-lock.json", locked[f"node_modules/{name}"]["version"]
    installed = _json(root / project / "node_modules" / name / "package.json")
    if installed:
        yield f"{project}/node_modules", installed["version"]


def _requirement_name(requirement: str) -> str:
    matched = _REQUIREMENT_NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", matched[0]).lower() if matched else ""


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(_read(path))


def _json(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_read(path) or "{}")
    return document


def main() -> int:
    found = problems(Path(__file__).parent.parent)
    for problem in found:
        print(f"governance: {problem}", file=sys.stderr)
    if not found:
        print("governance: documents, pins, lock and version agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
