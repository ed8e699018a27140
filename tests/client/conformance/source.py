"""The source of the upstream client suite, at the pinned commit, as it is shipped and made strict.

It is on no registry, so it comes out of git: a checkout that has the commit, or the public repository. Nothing of it is
kept in this one. The strict variant is the shipped one with a few names replaced, so that `strict.mjs` gets to see
every operation; a name that is not there exactly once means that the suite has changed, and ends the run.
"""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
BUILD = FOLDER / "build"
REPOSITORY = "https://github.com/durable-streams/durable-streams.git"
PACKAGE = "packages/client-conformance-tests"
FETCH_TIMEOUT_SECS = 600

_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
_EDITS = {
    "async function executeOperation(": "async function shippedOperation(",
    "let suites = loadEmbeddedTestSuites()": "let suites = switchedOn(loadEmbeddedTestSuites())",
    "const serverUrl = server.url": "const serverUrl = process.env.CONFORMANCE_URL || server.url",
}
_ADDITION = """
import {{ strictly, switchedOn }} from "{strict}"
const executeOperation = strictly(shippedOperation, validateExpectation)
"""


class SourceUnavailable(Exception):
    """The pinned commit could not be had."""


class SuiteChanged(Exception):
    """The source is not the one that the edits were written for."""


def pinned_commit() -> str:
    """The one commit of the upstream repository that SPEC_VERSION.md names."""
    commit = _COMMIT.search((ROOT / "SPEC_VERSION.md").read_text(encoding="utf-8"))
    assert commit, "SPEC_VERSION.md names no commit"
    return commit[0]


def prepare(checkout: Path | None = None) -> tuple[Path, Path]:
    """Both variants of the suite, ready to run: shipped and strict."""
    commit = pinned_commit()
    shipped, strict = BUILD / commit / "shipped", BUILD / commit / "strict"
    if not shipped.is_dir():
        _unpack(_archive(commit, checkout), shipped)
    shutil.rmtree(strict, ignore_errors=True)
    shutil.copytree(shipped, strict)
    runner = strict / "src" / "runner.ts"
    runner.write_text(strict_source(runner.read_text(encoding="utf-8")), encoding="utf-8")
    return shipped, strict


def strict_source(source: str) -> str:
    """The shipped runner, with every operation looked at by `strict.mjs`."""
    for name, replacement in _EDITS.items():
        if source.count(name) != 1:
            raise SuiteChanged(f"runner.ts must have {name!r} once, found {source.count(name)}")
        source = source.replace(name, replacement)
    return source + _ADDITION.format(strict=(FOLDER / "strict.mjs").as_uri())


def _archive(commit: str, checkout: Path | None) -> bytes:
    repository = checkout or _fetched(commit)
    return _git(repository, "archive", "--format=tar", f"{commit}:{PACKAGE}")


def _fetched(commit: str) -> Path:
    repository = BUILD / "upstream.git"
    if not repository.is_dir():
        repository.mkdir(parents=True)
        _git(repository, "init", "--quiet", "--bare")
    _git(repository, "fetch", "--quiet", "--depth=1", REPOSITORY, commit)
    return repository


def _unpack(archive: bytes, folder: Path) -> None:
    """All of it or nothing: half a suite would be taken for a whole one the next time."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(partial, filter="data")
    partial.rename(folder)


def _git(repository: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, timeout=FETCH_TIMEOUT_SECS)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise SourceUnavailable(f"'{' '.join(command)}' ended with {done.returncode}: {said}")
    return done.stdout
