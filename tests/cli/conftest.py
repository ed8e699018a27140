"""Command lines run in this process, in an empty folder and with none of the settings of whoever runs the tests.

Those that read standard input, are killed, or stand in pipes run in processes of their own.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everbrook.cli.main import main
from tests.server.process import EVERBROOK, serving

TIMEOUT_SECS = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move to an empty folder and forget every setting of the environment."""
    monkeypatch.chdir(tmp_path)
    for variable in os.environ:
        if variable.startswith(("DS_", "EVERBROOK_")) or variable == "RUST_LOG":
            monkeypatch.delenv(variable)
    return tmp_path


class Ran:
    """How a command line ended, and what it wrote."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Run = Callable[..., Ran]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command line."""

    def run_line(*args: str) -> Ran:
        code = main(args)
        return Ran(code, *capsys.readouterr())

    return run_line


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for the tests of one module, whose streams have names of their own."""
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield "http://{}:{}".format(*server.address)


@pytest.fixture
def url(folder: Path, server_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have every command speak to that server."""
    monkeypatch.setenv("EVERBROOK_URL", server_url)
    return server_url


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"\W", "-", str(request.node.name))[:100]


Pipe = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def pipe(url: str) -> Pipe:
    """Give a function that runs a command line in a process of its own, with bytes on standard input."""

    def run_process(*args: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        line = [EVERBROOK, *args]
        return subprocess.run(line, input=stdin, capture_output=True, check=False, timeout=TIMEOUT_SECS)

    return run_process
