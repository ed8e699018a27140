"""The Node reference server, installed beside this file at the versions that package-lock.json pins.

msgpackr-extract is held at 3.0.4, the last release that was published for every platform: with a later one the lock
file stays incomplete and `npm ci` refuses it. It serves the reference's file mode alone.
"""

import json
import subprocess
from functools import cache
from pathlib import Path

from tools.node import Node, find_node, install_packages

PACKAGE = "@durable-streams/server"
_FOLDER = Path(__file__).resolve().parent


def command(port: int) -> list[str]:
    """How to start the reference; with a folder as one more argument it keeps streams in files."""
    return [str(_node().executable), str(_FOLDER / "reference.mjs"), str(port)]


def package_version() -> str:
    """The pinned version of the reference server."""
    dependencies: dict[str, str] = json.loads((_FOLDER / "package.json").read_text())["dependencies"]
    return dependencies[PACKAGE]


def node_version() -> str:
    """The version of the Node that runs the reference."""
    command = [str(_node().executable), "--version"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@cache
def _node() -> Node:
    node = find_node()
    install_packages(_FOLDER, node)
    return node
