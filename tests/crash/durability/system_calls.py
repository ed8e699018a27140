"""System calls that write or sync, in the order in which a process made them, and what is not synced at a moment.

`strace` tells them, those of LMDB too. Its `-y` adds the path to every descriptor.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tests.crash.durability import syncing

STRACE = shutil.which("strace")
TRACED = "openat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,msync,rename,renameat,renameat2,unlink,unlinkat"
WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2"}
SYNCS = {"fsync", "fdatasync"}
_CALL = re.compile(r"\d+ +(?P<name>\w+)\((?P<given>.*)\) += (?P<result>\d+)(?:<.*>)?$")
_KILLED = re.compile(r"\d+ +\?+\( <unfinished \.\.\.>$")
_DESCRIPTOR = re.compile(r"(?P<number>\d+)<(?P<path>[^>]*)>")
_QUOTED = re.compile(r'"([^"]*)"')


class Call(Struct, frozen=True):
    """One call about a file: it was written, written and synced at once, synced, named, or unnamed.

    What the process says on its standard output is a call too, without a path.
    """

    kind: str
    path: Path


def trace(mode: str, folder: Path) -> list[Call]:
    """Run `syncing.py` on a store in a folder, and give its calls."""
    log = folder / "strace.log"
    command = [str(STRACE), "-f", "-y", "-s", "40", "-e", f"trace={TRACED}", "-o", str(log)]
    command += [sys.executable, "-B", str(Path(syncing.__file__)), mode, str(folder / "store")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, timeout=120)
    return list(parse_calls(log.read_text(encoding="utf-8", errors="replace").splitlines(), folder / "store"))


def parse_calls(lines: list[str], store: Path) -> Iterator[Call]:
    """Read what `strace` wrote about a process that used the store in a folder."""
    synced_at_once: dict[str, bool] = {}
    killed: set[str] = set()
    for line in lines:
        thread = line.split(maxsplit=1)[0]
        if _KILLED.match(line):
            # The end of the process kills its threads. One that was about to make a call never made it, so strace
            # can't tell which it was.
            killed.add(thread)
            continue
        assert thread not in killed or "+++ exited" in line, f"strace missed a call of a thread that went on: {line}"
        found = _CALL.match(line)
        if not found:
            assert "unfinished" not in line, f"two threads were busy at once: {line}"
            continue
        name, given = found["name"], found["given"]
        quoted = _QUOTED.findall(given)
        if name == "openat":
            # LMDB writes its first pages through a descriptor that syncs.
            synced_at_once[found["result"]] = "O_DSYNC" in given or "O_SYNC" in given
        elif name.startswith(("rename", "unlink")):
            yield from (Call(kind, Path(path)) for kind, path in zip(("unnamed", "named"), quoted, strict=False))
        elif descriptor := _DESCRIPTOR.match(given):
            path, at_once = Path(descriptor["path"]), "DSYNC" in given or synced_at_once.get(descriptor["number"])
            if name in WRITES and descriptor["number"] == "1":
                yield Call(quoted[0].removesuffix("\\n"), Path())
            elif path.is_relative_to(store):
                kind = "synced" if name in SYNCS else "written and synced" if at_once else "written"
                yield Call(kind, path.relative_to(store))


class Unsynced:
    """What has been written or named and not synced."""

    def __init__(self) -> None:
        self.paths: set[Path] = set()

    def take(self, call: Call) -> None:
        """Follow a call."""
        if call.kind == "written":
            self.paths.add(call.path)
        elif call.kind == "synced":
            self.paths.discard(call.path)

    def below(self, folder: str) -> set[Path]:
        """Give what is not synced below a folder of the store."""
        return {path for path in self.paths if path.parts[:1] == (folder,)}
