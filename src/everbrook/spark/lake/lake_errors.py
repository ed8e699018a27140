"""Errors of tables of the lake."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class LakeError(Exception):
    """A table can't be written or read."""


class LakeUnwritable(LakeError):
    """The folder of a table can't be written now: no permission, no space, no disk."""


class FilesGone(LakeError):
    """Files that were just written are gone: another run of the query has removed them."""


class RunSuperseded(LakeError):
    """Another run of the query has begun since: this one must not commit, as its files may be cleared at any time."""


class ColumnsChanged(LakeError):
    """Another writer has meanwhile added a column that the files of a batch have with another type."""


class TableMismatch(LakeError):
    """The path has no table that can be written or read in this way."""

    restartable = False


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Explain an error of the disk: which table it concerns, and that no message is lost."""
    try:
        yield
    except OSError as error:
        raise LakeUnwritable(
            f"can't write to the table {path}: {error.strerror or error}. No message is lost: the batch is written "
            "again as a whole once that is repaired"
        ) from error


def require_there(folder: Path, paths: Iterable[str]) -> None:
    """Refuse to commit files that are gone: a table that names them could not be read."""
    gone = next((path for path in paths if not (folder / path).exists()), None)
    if gone is not None:
        raise FilesGone(
            f"{folder / gone} was written and is gone. Does another run of this query use the same checkpoint?"
        )
