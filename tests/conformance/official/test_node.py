"""Node is found or installed, and a folder's packages are installed exactly once per lock."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import json

from tests.conformance.official.suite import FOLDER
from tools.node import Node, NodeUnavailable, find_node, install_packages, supported

FAKE_NPM = """#!/bin/sh
echo "$@" >> calls
sleep 0.1
rm -rf node_modules && mkdir node_modules
"""


@pytest.fixture
def fake_node(tmp_path: Path) -> Node:
    npm = tmp_path / "npm"
    npm.write_text(FAKE_NPM)
    npm.chmod(0o700)
    return Node(tmp_path / "node", (str(npm),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    (folder / "package-lock.json").write_text("{}")
    return folder


def installations(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


@pytest.mark.parametrize("version", ["v20.19.0", "v20.20.2\n", "v22.12.0", "v23.1.0", "v24.19.0"])
def test_a_node_that_runs_the_suite_is_supported(version: str) -> None:
    assert supported(version)


@pytest.mark.parametrize("version", ["v18.20.8", "v20.18.3", "v21.7.3", "v22.11.0", "24.0.0", "", "no such file"])
def test_an_older_or_unknown_node_is_not_supported(version: str) -> None:
    assert not supported(version)


def test_a_misspelt_choice_of_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBROOK_NODE", "whel")
    with pytest.raises(NodeUnavailable, match="'whel'"):
        find_node()


def test_packages_are_installed_once(folder: Path, fake_node: Node) -> None:
    install_packages(folder, fake_node)
    install_packages(folder, fake_node)
    assert installations(folder) == 1


def test_packages_are_installed_again_for_another_lock(folder: Path, fake_node: Node) -> None:
    install_packages(folder, fake_node)
    (folder / "package-lock.json").write_text('{"lockfileVersion": 3}')
    install_packages(folder, fake_node)
    assert installations(folder) == 2


def test_many_at_once_install_once(folder: Path, fake_node: Node) -> None:
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(install_packages, folder, fake_node) for _ in range(8)]:
            done.result()
    assert installations(folder) == 1


def test_a_failed_installation_says_why_and_is_not_taken_for_done(folder: Path, fake_node: Node) -> None:
    failing = Node(fake_node.executable, ("sh", "-c", "echo no such package; exit 7"))
    with pytest.raises(NodeUnavailable, match="no such package"):
        install_packages(folder, failing)
    install_packages(folder, fake_node)
    assert installations(folder) == 1


def test_the_lock_names_no_registry() -> None:
    packages: dict[str, dict[str, object]] = json.decode((FOLDER / "package-lock.json").read_bytes())["packages"]
    assert packages
    assert not [name for name, package in packages.items() if "resolved" in package]
