"""Command lines run in this process, in an empty folder and with none of the settings of whoever runs the tests.

Those that are killed, or stand between other commands of a pipe, run in processes of their own.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from everbrook.cli.main import main
from tests.kit.server_thread import RunningServer, configured
from tests.kit.stores import make_store


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
def server_url() -> Iterator[str]:
    """A server for the tests of one module, whose streams have names of their own, in a thread of this process."""
    with RunningServer(configured()) as server:
        yield server.origin


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
def pipe(url: str, monkeypatch: pytest.MonkeyPatch) -> Pipe:
    """Give a function that runs a command line with bytes on standard input, in this process."""

    def run_line(*args: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        written = {name: TextIOWrapper(BytesIO(), "utf-8", write_through=True) for name in ("stdout", "stderr")}
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin), "utf-8"))
            for name, file in written.items():
                patched.setattr(sys, name, file)
            code = main(args)
        out, err = (file.buffer.getvalue() for file in written.values())
        return subprocess.CompletedProcess(args, code, out, err)

    return run_line


@pytest.fixture
def store(folder: Path) -> Path:
    """A store that a killed server left in the data folder `data`."""
    (folder / "data").mkdir()
    make_store(folder).rename(folder / "data" / "acid")
    return folder / "data" / "acid"


@pytest.fixture
def any_port(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs on this machine may have the usual port."""
    monkeypatch.setenv("DS_SERVER__PORT", "0")
