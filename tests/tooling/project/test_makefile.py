"""The make targets that people meet first say clearly why they can't do their work."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("target", ["docs"])
def test_a_target_with_nothing_to_do_yet_says_so_and_fails(target: str) -> None:
    ended = make(target)
    assert ended.returncode != 0
    assert ended.stderr.startswith(f"make {target}: there is no ")


def test_setup_without_a_recent_python_names_the_version_it_needs() -> None:
    ended = make("--always-make", "setup", "PYTHON=false")
    assert ended.returncode != 0
    assert "Everbrook needs Python 3.11 or newer; 'false' is older or missing" in ended.stderr


def test_an_environment_of_another_python_than_the_one_that_was_named_is_not_used(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho Python 3.0.0\n")
    python.chmod(0o700)
    ended = make("setup", f"VENV={tmp_path}", f"PYTHON={sys.executable}")
    assert ended.returncode != 0
    assert ended.stderr.startswith(f"{tmp_path} has Python 3.0.0, and PYTHON={sys.executable} is Python 3.")


@pytest.mark.parametrize(
    "target, installs",
    [("serve", "Everbrook into"), ("up", "Everbrook with Spark"), ("test", "Everbrook and everything")],
)
def test_a_fresh_checkout_installs_no_more_than_a_target_needs(target: str, installs: str, tmp_path: Path) -> None:
    planned = make("--dry-run", target, f"VENV={tmp_path}").stdout
    assert [line for line in planned.splitlines() if line.startswith('echo "Installing')] == [
        line for line in planned.splitlines() if f'echo "Installing {installs}' in line
    ]
    assert f'echo "Installing {installs}' in planned


def test_the_client_suite_without_a_folder_says_what_to_set() -> None:
    ended = make("client-conformance", "--assume-old=.venv/.everything")
    assert ended.returncode != 0
    assert "set SUITE to the folder" in ended.stderr


def test_help_lists_every_target_of_the_project() -> None:
    listed = {line.split()[0] for line in make("help").stdout.splitlines()}
    expected = {
        "install",
        "setup",
        "serve",
        "up",
        "dev",
        "dev-down",
        "integration-test",
        "integration-test-sessions",
        "docker",
        "test",
        "check",
        "conformance",
        "client-conformance",
        "bench",
        "docs",
        "soak",
        "lock",
    }
    assert expected <= listed


def test_the_lock_names_no_registry() -> None:
    assert "://" not in (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
