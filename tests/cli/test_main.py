"""The command as a whole: version, help, and errors of one line."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.conftest import Run


def test_the_version_is_that_of_the_package(run: Run) -> None:
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"everbrook {version('everbrook')}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_commands(run: Run, flag: str) -> None:
    ran = run(flag)
    assert ran.code == 0
    assert "serve" in ran.out
    assert "config" in ran.out


@pytest.mark.parametrize("line", [(), ("config",)])
def test_without_a_command_help_goes_to_standard_error(run: Run, line: tuple[str, ...]) -> None:
    ran = run(*line)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: everbrook" in ran.err


@pytest.mark.parametrize(
    "line, named",
    [
        (("sevre",), "'sevre'"),
        (("serve", "--prot", "1"), "--prot"),
        (("serve", "--port"), "--port"),
        (("serve", "extra"), "extra"),
        (("config", "show", "--format", "xml"), "xml"),
        (("serve", "--port", "x"), "--port: server.port must be an integer from 0 to 65535, got 'x'"),
        (
            ("serve", "--storage", "disk"),
            "--storage: storage.mode must be memory, file-fast, file-durable or acid",
        ),
        (("serve", "--profile", "none"), "none.toml: cannot be read: No such file or directory"),
        (("config", "show", "--config", "none.toml"), "none.toml: cannot be read"),
    ],
)
def test_a_mistake_is_one_line_on_standard_error_and_exit_code_2(run: Run, line: tuple[str, ...], named: str) -> None:
    ran = run(*line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("everbrook: ")
    assert named in ran.err


def test_a_misspelt_variable_stops_the_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_SERVR__PORT", "1")
    ran = run("serve")
    assert ran.code == 2
    assert ran.err == "everbrook: DS_SERVR__PORT: unknown section 'SERVR'; did you mean DS_SERVER__PORT?\n"


def test_the_package_runs_as_a_module() -> None:
    line = [sys.executable, "-m", "everbrook", "--version"]
    ran = subprocess.run(line, capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout == f"everbrook {version('everbrook')}\n"
