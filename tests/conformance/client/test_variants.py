"""The client suite is taken from a folder, as it is shipped and made strict."""

from pathlib import Path

import pytest

from tests.conformance.client.variants import SuiteUnusable, prepare, strict_source

RUNNER = """
let suites = loadEmbeddedTestSuites()
const serverUrl = server.url
async function executeOperation(op, ctx) {}
await executeOperation(op, ctx)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "runner.ts").write_text(RUNNER)
    (folder / "node_modules").mkdir()
    return folder


def test_the_shipped_variant_is_the_folder_without_its_packages(suite: Path, tmp_path: Path) -> None:
    shipped, _ = prepare(suite, tmp_path / "build")
    assert (shipped / "src" / "runner.ts").read_text() == RUNNER
    assert not (shipped / "node_modules").exists()


def test_a_second_run_takes_the_folder_as_it_is_now(suite: Path, tmp_path: Path) -> None:
    prepare(suite, tmp_path / "build")
    (suite / "src" / "runner.ts").write_text(f"{RUNNER}// changed")
    shipped, _ = prepare(suite, tmp_path / "build")
    assert (shipped / "src" / "runner.ts").read_text().endswith("// changed")


def test_the_strict_variant_shows_every_operation_to_the_strict_checks(suite: Path, tmp_path: Path) -> None:
    _, strict = prepare(suite, tmp_path / "build")
    runner = (strict / "src" / "runner.ts").read_text()
    assert "async function shippedOperation(op, ctx) {}\nawait executeOperation(op, ctx)" in runner
    assert "const executeOperation = strictly(shippedOperation, validateExpectation)" in runner


def test_a_folder_without_the_suite_is_named(tmp_path: Path) -> None:
    with pytest.raises(SuiteUnusable, match=f"{tmp_path} has no src/runner.ts"):
        prepare(tmp_path, tmp_path / "build")


def test_a_runner_that_has_changed_is_not_made_strict() -> None:
    with pytest.raises(SuiteUnusable, match="must have 'async function executeOperation"):
        strict_source("const everything = 'else'")
