"""Command lines run in this process, in an empty folder and with none of the settings of whoever runs the tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move to an empty folder and forget every setting of the environment."""
    monkeypatch.chdir(tmp_path)
    for variable in os.environ:
        if variable.startswith("DS_") or variable == "RUST_LOG":
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
