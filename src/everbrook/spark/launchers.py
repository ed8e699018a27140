"""Small scripts that start a program in the way that Spark needs: they are written once, into a folder of the user's.

Python's is one for speed. Spark lets its workers load `pyspark` from an archive of sources, which each of them compiles
anew: half a second or more, where Spark waits ten seconds at most for a worker to begin. Installed, it is compiled.
"""

import os
import shlex
import sys
from pathlib import Path
from tempfile import gettempdir
from zlib import crc32

_WITHOUT_ARCHIVE = """#!/bin/sh
set -f
IFS=:
path=
for entry in $PYTHONPATH; do
  case "$entry" in */pyspark.zip) ;; *) path="$path:$entry" ;; esac
done
PYTHONPATH="${{path#:}}" exec {python} "$@"
"""
"""Remove the archive from the path, however often it is there: Spark adds it twice for some workers."""


def ensure_python(master: str | None) -> None:
    """Let workers run this Python, unless the environment names another."""
    here = master is not None and master.startswith("local")
    python = str(_worker_python()) if here else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    # The driver has a worker too: the one that looks for data sources which are installed.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)


def _worker_python() -> Path:
    """Give a Python for workers on this machine: this one, with the `pyspark` that is installed."""
    script = _WITHOUT_ARCHIVE.format(python=shlex.quote(sys.executable))
    return write_launcher(launchers_of("python", sys.executable), "python3", script)


def launchers_of(kind: str, program: str) -> Path:
    """Give the folder for the scripts that start a program."""
    folder = Path(gettempdir(), f"everbrook-{kind}-{os.getuid()}-{crc32(program.encode()):08x}")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def write_launcher(folder: Path, name: str, script: str) -> Path:
    """Write a script, whole whoever else writes it at the same time."""
    folder.mkdir(exist_ok=True)
    launcher = folder / name
    new = launcher.with_name(f"{name}-{os.getpid()}")
    new.write_text(script)
    new.chmod(0o700)
    return new.replace(launcher)
