"""The governance check: a project that agrees with itself passes, and each way to disagree is named."""

import json
from pathlib import Path

import pytest

from tools import governance

SUITE = "@durable-streams/server-conformance-tests"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PINS = f"| protocol | `{COMMIT}` |\n| `{SUITE}` | `0.3.6` |\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The smallest project that passes every check."""
    for name in governance.REQUIRED_DOCUMENTS:
        write(tmp_path / name, "some words\n")
    write(tmp_path / "SPEC_VERSION.md", PINS)
    write(tmp_path / "docs/compatibility.md", PINS)
    write(tmp_path / "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 1.2.0 (unreleased)\n\n## 1.1.0\n")
    write(tmp_path / "requirements-dev.lock", "msgspec==0.22.0\npytest-xdist==3.8.0\n")
    write(
        tmp_path / "pyproject.toml",
        '[project]\nversion = "1.2.0"\ndependencies = ["msgspec>=0.19"]\n'
        '[dependency-groups]\ndev = ["pytest_xdist[psutil]>=3"]\n',
    )
    write(tmp_path / "tests/conformance/official/package.json", json.dumps({"devDependencies": {SUITE: "0.3.6"}}))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_project_that_agrees_with_itself_has_no_problems(project: Path) -> None:
    assert governance.problems(project) == []


@pytest.mark.parametrize("name", governance.REQUIRED_DOCUMENTS)
def test_a_missing_document_is_named(project: Path, name: str) -> None:
    (project / name).unlink()
    assert f"{name} is missing or empty" in governance.problems(project)


def test_an_empty_document_counts_as_missing(project: Path) -> None:
    write(project / "docs/gaps.md", "\n  \n")
    assert governance.problems(project) == ["docs/gaps.md is missing or empty"]


def test_a_protocol_pinned_to_a_branch_is_refused(project: Path) -> None:
    write(project / "SPEC_VERSION.md", PINS.replace(COMMIT, "main"))
    assert "exactly one protocol commit" in governance.problems(project)[0]


def test_the_compatibility_page_must_name_the_pinned_commit(project: Path) -> None:
    write(project / "docs/compatibility.md", PINS.replace(COMMIT, "f" * 40))
    assert governance.problems(project) == [f"docs/compatibility.md does not name the pinned protocol commit {COMMIT}"]


def test_the_compatibility_page_must_name_the_pinned_versions(project: Path) -> None:
    write(project / "docs/compatibility.md", PINS.replace("0.3.6", "0.3.5"))
    assert governance.problems(project) == [f"docs/compatibility.md says {SUITE} 0.3.5, SPEC_VERSION.md pins 0.3.6"]


def test_a_page_without_package_pins_is_refused(project: Path) -> None:
    write(project / "SPEC_VERSION.md", f"`{COMMIT}`")
    assert "pins no package" in governance.problems(project)[0]


@pytest.mark.parametrize("version", ["0.3.7", "^0.3.6", "latest"])
def test_a_package_asked_for_in_another_version_is_named(project: Path, version: str) -> None:
    write(project / "tests/conformance/official/package.json", json.dumps({"dependencies": {SUITE: version}}))
    assert governance.problems(project) == [
        f"tests/conformance/official/package.json has {SUITE} {version}, SPEC_VERSION.md pins 0.3.6"
    ]


def test_a_pinned_package_that_nobody_asks_for_is_named(project: Path) -> None:
    write(project / "tests/conformance/official/package.json", "{}")
    assert "no package.json" in governance.problems(project)[0]


def test_a_package_locked_in_another_version_is_named(project: Path) -> None:
    locked = {"packages": {f"node_modules/{SUITE}": {"version": "0.3.4"}}}
    write(project / "tests/conformance/official/package-lock.json", json.dumps(locked))
    assert governance.problems(project) == [
        f"tests/conformance/official/package-lock.json has {SUITE} 0.3.4, SPEC_VERSION.md pins 0.3.6"
    ]


def test_a_package_installed_in_another_version_is_named(project: Path) -> None:
    installed = project / "tests/conformance/official/node_modules" / SUITE / "package.json"
    write(installed, json.dumps({"version": "0.3.5"}))
    assert governance.problems(project) == [
        f"tests/conformance/official/node_modules has {SUITE} 0.3.5, SPEC_VERSION.md pins 0.3.6"
    ]


def test_a_requirement_without_a_locked_version_is_named(project: Path) -> None:
    write(project / "requirements-dev.lock", "pytest-xdist==3.8.0\n")
    assert governance.problems(project) == ["requirements-dev.lock has no version for 'msgspec>=0.19': run `make lock`"]


@pytest.mark.parametrize(
    "changelog, said",
    [("# Changelog\n\n## Unreleased\n", "names no version"), ("## 1.3.0\n", "starts with 1.3.0")],
)
def test_a_version_the_changelog_does_not_lead_with_is_named(project: Path, changelog: str, said: str) -> None:
    write(project / "CHANGELOG.md", changelog)
    assert governance.problems(project) == [f"CHANGELOG.md {said}, pyproject.toml has 1.2.0"]
