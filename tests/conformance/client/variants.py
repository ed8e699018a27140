"""Two variants of the upstream client suite: as it is shipped, and made strict.

The suite is on no registry, so whoever runs it has a copy of it; nothing of it is kept in this repository. The strict
variant is the shipped one with a few names replaced, so that `strict.mjs` sees every operation. A name that is not
there exactly once means that the suite has changed, and ends the run.
"""

import shutil
from pathlib import Path

FOLDER = Path(__file__).parent
BUILD = FOLDER / "build"

_RUNNER = Path("src", "runner.ts")
_EDITS = {
    "async function executeOperation(": "async function shippedOperation(",
    "let suites = loadEmbeddedTestSuites()": "let suites = switchedOn(loadEmbeddedTestSuites())",
    "const serverUrl = server.url": "const serverUrl = process.env.CONFORMANCE_URL || server.url",
}
_ADDITION = """
import {{ strictly, switchedOn }} from "{strict}"
const executeOperation = strictly(shippedOperation, validateExpectation)
"""


class SuiteUnusable(Exception):
    """The folder does not hold the suite, or not the version that the edits were written for."""


def prepare(suite: Path, build: Path = BUILD) -> tuple[Path, Path]:
    """Copy the suite to where its npm packages are installed: the shipped and the strict variant."""
    if not (suite / _RUNNER).is_file():
        raise SuiteUnusable(f"SUITE must be the folder packages/client-conformance-tests; {suite} has no {_RUNNER}")
    shutil.rmtree(build, ignore_errors=True)
    shipped, strict = build / "shipped", build / "strict"
    for variant in (shipped, strict):
        shutil.copytree(suite, variant, ignore=shutil.ignore_patterns("node_modules"))
    runner = strict / _RUNNER
    runner.write_text(strict_source(runner.read_text(encoding="utf-8")), encoding="utf-8")
    return shipped, strict


def strict_source(source: str) -> str:
    """Edit the shipped runner so that `strict.mjs` sees every operation."""
    for name, replacement in _EDITS.items():
        if source.count(name) != 1:
            raise SuiteUnusable(f"runner.ts must have {name!r} once, found {source.count(name)}")
        source = source.replace(name, replacement)
    return source + _ADDITION.format(strict=(FOLDER / "strict.mjs").as_uri())
