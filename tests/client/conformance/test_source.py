"""The client suite comes out of git, at the pinned commit and no other."""

import subprocess
from pathlib import Path

import pytest

from tests.client.conformance import source
from tests.client.conformance.source import SourceUnavailable, SuiteChanged, prepare, strict_source

RUNNER = """
let suites = loadEmbeddedTestSuites()
const serverUrl = server.url
async function executeOperation(op, ctx) {}
await executeOperation(op, ctx)
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in the place of the public one, whose last commit is the pinned one."""
    repository = tmp_path / "upstream"
    runner = repository / source.PACKAGE / "src" / "runner.ts"
    runner.parent.mkdir(parents=True)
    runner.write_text(RUNNER)
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "The suite")
    commit = git(repository, "rev-parse", "HEAD")
    monkeypatch.setattr(source, "pinned_commit", lambda: commit)
    monkeypatch.setattr(source, "REPOSITORY", repository.as_uri())
    monkeypatch.setattr(source, "BUILD", tmp_path / "build")
    return repository


def test_the_suite_is_fetched_from_the_public_repository(upstream: Path) -> None:
    shipped, _ = prepare()
    assert (shipped / "src" / "runner.ts").read_text() == RUNNER


def test_a_checkout_that_has_the_commit_will_do(upstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "REPOSITORY", "file:///nowhere")
    shipped, _ = prepare(upstream)
    assert (shipped / "src" / "runner.ts").read_text() == RUNNER


def test_what_was_fetched_once_is_there(upstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = prepare()
    monkeypatch.setattr(source, "REPOSITORY", "file:///nowhere")
    assert prepare() == fetched


def test_a_source_that_cannot_be_had_is_named(upstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "REPOSITORY", "file:///nowhere")
    with pytest.raises(SourceUnavailable, match="file:///nowhere"):
        prepare()


def test_the_strict_variant_shows_every_operation_to_the_strict_checks(upstream: Path) -> None:
    _, strict = prepare()
    runner = (strict / "src" / "runner.ts").read_text()
    assert "async function shippedOperation(op, ctx) {}\nawait executeOperation(op, ctx)" in runner
    assert "const executeOperation = strictly(shippedOperation, validateExpectation)" in runner


def test_a_runner_that_has_changed_is_not_made_strict() -> None:
    with pytest.raises(SuiteChanged, match="must have 'async function executeOperation"):
        strict_source("const everything = 'else'")
