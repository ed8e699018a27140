"""Walking LMDB's tree in a process of its own, before a server maps the file: LMDB trusts its pages.

A server does so after an unclean shutdown, which may have left damaged pages: LMDB may crash the process that reads
them. The walk reads only the last byte of each value, to see that the value is in the file: its checksum is verified
when a server reads it.
"""

import subprocess
import sys
from pathlib import Path

import lmdb

from everbrook.storage.journal_scan import parse_log_file
from everbrook.storage.lmdb_base import open_environment
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import BASE, JOURNAL, StoreError
from everbrook.storage.rows import DATA

_UNREADABLE, _OUT_OF_ORDER = 10, 11
_PROBLEMS = {_UNREADABLE: "LMDB can't read its pages", _OUT_OF_ORDER: "its rows are not in order"}


def walk_base(folder: Path) -> str | None:
    """Read every key of the base of a store. Gives what is wrong with its tree, if something is."""
    problem = problem_of(folder / BASE / DATA)
    if problem:
        return problem
    # Not by multiprocessing, which would import the main module of whoever has this server in their program.
    walk = [sys.executable, "-m", __spec__.name, str(folder / BASE)]
    code = subprocess.run(walk, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode  # noqa: S603
    return None if code == 0 else _PROBLEMS.get(code, "its pages are so damaged that reading them ends a process")


def open_walked(base: Path) -> lmdb.Environment:
    """Open the environment in a folder. If the store was not closed, its tree is walked first.

    A store that was closed has no files of the journal.
    """
    journal = base.parent / JOURNAL
    if journal.is_dir() and any(map(parse_log_file, journal.iterdir())):
        problem = walk_base(base.parent)
        if problem:
            raise StoreError(
                f"{base / DATA} is damaged: {problem}; everbrook check says more, everbrook repair mends it"
            )
    return open_environment(base)


def _walk(base: str) -> int:
    """Read all keys in order. Gives the exit code that says what is wrong."""
    try:
        with lmdb.open(base, readonly=True, lock=False, create=False, max_dbs=16, readahead=False) as env:
            with env.begin() as transaction:
                names = [bytes(name) for name in transaction.cursor().iternext(keys=True, values=False)]
            for name in names:
                database = env.open_db(name, create=False)
                with env.begin(buffers=True) as transaction:
                    if not _in_order(transaction, database):
                        return _OUT_OF_ORDER
    except lmdb.Error:
        return _UNREADABLE
    return 0


def _in_order(transaction: lmdb.Transaction, database: "lmdb._Database") -> bool:
    """Tell whether the keys of a database rise, and are as many as LMDB counts."""
    count, before = transaction.stat(database)["entries"], b""
    for key, value in transaction.cursor(database):
        if count == 0 or bytes(key) <= before:
            return False
        # Behind the end of the file there is nothing to read, and that ends this process.
        bytes(value[-1:])
        count, before = count - 1, bytes(key)
    return count == 0


if __name__ == "__main__":
    sys.exit(_walk(sys.argv[1]))
