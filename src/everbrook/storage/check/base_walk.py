"""The walk of LMDB's tree, in a process of its own, because a damaged page may end the process that reads it.

A server walks the tree in the background. It walks before it opens the file if damage may be the reason why the last
server ended: the store was not closed, and no walk of that opening had completed. The walk reads only the last byte of
each value, to verify that the value is inside the file. The checksum of a value is verified when a server reads it.

Beside a server each database is read in one transaction. Until its end LMDB does not reuse the pages of that moment. So
a walk is abandoned if the file has grown too much meanwhile, and that database is walked again later.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lmdb
from msgspec import Struct

from everbrook.storage.base_rows import DATA
from everbrook.storage.journal_scan import parse_log_file
from everbrook.storage.lmdb_base import MAP_BYTES, open_environment
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import BASE, JOURNAL, StoreError

logger = logging.getLogger(__name__)

_UNREADABLE, _OUT_OF_ORDER, _GIVEN_UP = 10, 11, 12
_PROBLEMS = {_UNREADABLE: "LMDB can't read its pages", _OUT_OF_ORDER: "its rows are not in order"}
_ENDED = "its pages are so damaged that reading them ends a process"
_DAMAGE_SIGNALS = {-signal.SIGBUS, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGFPE}
"""The exit codes of a process that read damaged pages. Any other code, such as one for want of memory, is no proof."""
_OTHER_ERRORS = (lmdb.ReadersFullError, lmdb.MapResizedError, lmdb.MemoryError, lmdb.LockError)
"""Errors of LMDB that are not about its pages."""
WALKED = "walked"
"""The name of the marker file beside the tree. It contains the boot in which a walk found the tree undamaged."""
_ADVICE = "everbrook check says more, everbrook repair mends it"


def walk_base(folder: Path) -> str | None:
    """Read every key of a store's base. Returns the problem of its tree, or None."""
    problem = problem_of(folder / BASE / DATA)
    if problem:
        return problem
    code = _start(folder / BASE).wait()
    return None if code == 0 else _PROBLEMS.get(code, _ENDED)


class WalkedOpening:
    """Opens the base for a server, and walks its tree before or afterwards.

    A marker file records that a walk of this opening found the tree undamaged, with the boot of the machine. A crash of
    the process can't damage pages, but a crash of the machine can.
    """

    def __init__(self, boot: str) -> None:
        """`boot` is the id of this boot of the machine, empty if it is unknown."""
        self._boot = boot
        self._undamaged = False

    def open(self, base: Path) -> lmdb.Environment:
        """Open the environment in a folder. Raises `StoreError` if its tree was walked first and is damaged."""
        marked = _remove_marker(base)
        trusted = _was_closed(base.parent) or marked == self._boot != ""
        self._undamaged = not (base / DATA).exists()
        if not (trusted or self._undamaged):
            problem = walk_base(base.parent)
            if problem:
                raise StoreError(f"{base / DATA} is damaged: {problem}; {_ADVICE}")
            self._undamaged = True
        return open_environment(base)

    def walk(self, base: Path, env: lmdb.Environment) -> "BackgroundWalk | None":
        """Begin to walk the environment, unless its tree is new or was walked before it was opened."""
        if not self._undamaged:
            return BackgroundWalk(base, env, self._boot)
        _write_marker(base, self._boot)
        return None


def _was_closed(folder: Path) -> bool:
    """Return whether a store was closed. A closed store has no files of the journal."""
    journal = folder / JOURNAL
    return not (journal.is_dir() and any(map(parse_log_file, journal.iterdir())))


def _remove_marker(base: Path) -> str:
    """Return the boot in the marker file, and remove the file: it is about the last opening, and not about this one."""
    marker = base / WALKED
    if not marker.exists():
        return ""
    boot = marker.read_text(encoding="utf-8", errors="replace")
    marker.unlink()
    return boot


def _write_marker(base: Path, boot: str) -> None:
    # An error is harmless: without the marker, the next start after a kill walks the tree before it opens the file.
    with suppress(OSError):
        (base / WALKED).write_text(boot, encoding="utf-8")


class BackgroundWalk:
    """A walk over a base that this process has open and writes to."""

    def __init__(self, base: Path, env: lmdb.Environment, boot: str = "") -> None:
        """Begin to walk the environment in a folder, at low priority. A walk that can't begin is logged."""
        self._path = base / DATA
        self._env = env
        self._boot = boot
        self._problem: str | None = None
        self.process: subprocess.Popen[bytes] | None = None
        """The process that walks, until its exit code was read."""
        try:
            self.process = _start(base, str(os.getpid()))
        except OSError as error:
            self._warn(str(error))

    def _warn(self, reason: str) -> None:
        logger.warning("the tree of %s was not walked: %s; everbrook check reads all of it", self._path, reason)

    def problem(self) -> str | None:
        """Return the problem of the tree, if the walk has found damage so far."""
        code = self.process.poll() if self.process else None
        if code is not None:
            self.process = None
            # A killed process leaves its transaction in LMDB's reader table, so that LMDB would never reuse its pages.
            self._env.reader_check()
            self._note(code)
        return self._problem

    def _note(self, code: int) -> None:
        found = _ENDED if code in _DAMAGE_SIGNALS else _PROBLEMS.get(code)
        if found:
            self._problem = f"{self._path} is damaged: {found}; {_ADVICE}"
        elif code == _GIVEN_UP:
            self._warn("it would have kept too many pages while the store was written to")
        elif code == 0:
            _write_marker(self._path.parent, self._boot)
        else:
            self._warn(f"the process that walks ended with code {code}")

    def stop(self) -> None:
        """End the walk, if it has not ended."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def _start(base: Path, *parent: str) -> "subprocess.Popen[bytes]":
    """Start a process that walks. `parent` is the id of the server's process, if the walk is beside one."""
    # `multiprocessing` would import the main module of a program that embeds this server.
    walk = [sys.executable, "-m", __spec__.name, str(base), *parent]
    silent = subprocess.DEVNULL
    # A process group of its own keeps an interrupt at the terminal away from it.
    return subprocess.Popen(walk, stdin=silent, stdout=silent, stderr=silent, process_group=0)  # noqa: S603


class Bounds(Struct, frozen=True, kw_only=True):
    """The bounds of a walk beside a server."""

    growth_bytes: int = 256 << 20
    """How much the file may grow during the walk of one database; a quarter of the file's size if that is more."""
    rows: int = 1 << 12
    """How many rows are read between two checks of the bounds."""
    tries: int = 3
    pause_secs: float = 60.0
    """How long to wait before a database is begun again."""


class _GivenUp(Exception):
    """The walk of a database was given up."""


class TreeWalk:
    """Reads all keys of an environment in their order."""

    def __init__(self, env: lmdb.Environment, bounds: Bounds, wanted: Callable[[], bool]) -> None:
        """`wanted` returns whether the server still waits for the walk."""
        self._env = env
        self._bounds = bounds
        self._wanted = wanted

    def run(self) -> int:
        """Read all keys. Returns the exit code for the result."""
        try:
            with self._env.begin() as transaction:
                names = [bytes(name) for name in transaction.cursor().iternext(keys=True, values=False)]
            if all(self._try_database(self._env.open_db(name, create=False)) for name in names):
                return 0
        except _GivenUp:
            return _GIVEN_UP
        except _OTHER_ERRORS:
            raise
        except lmdb.Error:
            return _UNREADABLE
        return _OUT_OF_ORDER

    def _try_database(self, database: "lmdb._Database") -> bool:
        for _ in range(self._bounds.tries - 1):
            try:
                return self._in_order(database)
            except _GivenUp:
                time.sleep(self._bounds.pause_secs)
        return self._in_order(database)

    def _in_order(self, database: "lmdb._Database") -> bool:
        """Return whether the keys of a database increase, are as many as LMDB counts, and are found by a search.

        The search is needed because a damaged key in a branch page leads to a wrong page: the rows are in order, but a
        search misses them.
        """
        with self._env.begin(buffers=True) as transaction:
            count, before = transaction.stat(database)["entries"], b""
            begin = self._env.info()["last_pgno"]
            for found in transaction.cursor(database).iternext(keys=True, values=False):
                key = bytes(found)
                value = transaction.get(key, db=database)
                if count == 0 or key <= before or value is None:
                    return False
                # Read the last byte: if it is beyond the end of the file, a signal ends this process.
                bytes(value[-1:])
                count, before = count - 1, key
                if count % self._bounds.rows == 0:
                    self._check_bounds(begin)
        return count == 0

    def _check_bounds(self, begin: int) -> None:
        if not self._wanted():
            sys.exit(_GIVEN_UP)
        grown = self._env.info()["last_pgno"] - begin
        if grown > max(self._bounds.growth_bytes // self._env.stat()["psize"], begin // 4):
            raise _GivenUp


def _main(base: str, parent: str | None = None) -> int:
    """Walk the base in a folder, beside a process or alone."""
    if parent:
        # The walk must not take processor time from the server.
        os.nice(19)
    size = (Path(base) / DATA).stat().st_size
    # With LMDB's lock file, the writer keeps the pages of this process's transaction.
    locked, map_bytes = parent is not None, max(MAP_BYTES, 2 * size)
    try:
        env = lmdb.open(base, map_bytes, readonly=True, lock=locked, create=False, max_dbs=16, readahead=False)
    except lmdb.Error:
        if locked:
            raise
        return _UNREADABLE
    with env:
        return TreeWalk(env, Bounds(), lambda: parent is None or os.getppid() == int(parent)).run()


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
