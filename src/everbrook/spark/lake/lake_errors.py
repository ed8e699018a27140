"""Errors of tables of the lake."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class LakeError(Exception):
    """A table can't be written, or read, as it was asked for."""


class LakeUnwritable(LakeError):
    """The folder of a table can't be written now: no right, no room, no disk."""


class FilesGone(LakeError):
    """Files that were just written are not there: another run of the query has cleared them."""


class RunSuperseded(LakeError):
    """Another run of the query has begun since: this one must not commit, as its files may be cleared at any time."""


class ColumnsChanged(LakeError):
    """Another writer has meanwhile added a column that the files of a batch have with another type."""


class TableMismatch(LakeError):
    """What is at the path is no table that can be written, or that can be read, as it was asked for."""

    restartable = False


@contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Say which table an error of the disk concerns, and that nothing is lost by it."""
    try:
        yield
    except OSError as error:
        raise LakeUnwritable(
            f"can't write to the table {path}: {error.strerror or error}. No message is lost: the batch is written "
            "again as a whole once that is mended"
        ) from error


def require_there(folder: Path, paths: Iterable[str]) -> None:
    """Refuse to commit files that are gone: a table that names them could not be read."""
    gone = next((path for path in paths if not (folder / path).exists()), None)
    if gone is not None:
        raise FilesGone(
            f"{folder / gone} was written and is gone. Does another run of this query go on with the same checkpoint?"
        )
