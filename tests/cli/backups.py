"""Backups as a person takes them, by command lines."""

import json
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from everbrook.cli.main import main
from everbrook.storage import find_backups
from tests.kit.server_process import EVERBROOK

MODES = ["acid", "file-fast", "file-durable"]


def line(*args: object) -> list[str]:
    return [EVERBROOK, *map(str, args)]


def ran(*args: object) -> "subprocess.CompletedProcess[str]":
    """Run a command line to its end, in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(map(str, args)))
    return subprocess.CompletedProcess(line(*args), code, out.getvalue(), err.getvalue())


def back_up(url: str, dest: Path, *args: str) -> dict[str, Any]:
    """Take a backup, and give what is told of it."""
    done = ran("backup", url, dest, "--json", *args)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def restore(dest: Path, data_dir: Path, *args: str) -> dict[str, Any]:
    """Restore a backup, and give what is told of it."""
    done = ran("restore", dest, data_dir, "--json", *args)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def whole(dest: Path) -> list[Path]:
    """The backups in a folder, each of which has to be whole: it can be restored."""
    found = find_backups(dest)
    for number, path in enumerate(found):
        target = dest.parent / f"proof-{path.name}-{number}"
        restore(path, target)
    return found
