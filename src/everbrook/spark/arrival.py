"""Classes that find their way on workers: where the package was sent if it is not installed, or with a clear error.

A class is sent as its name, with a small function that looks it up. Spark sends functions of `__main__` as they are, so
that this one needs nothing over there but Python and Spark.
"""

import copyreg
from abc import ABCMeta
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

PACKAGES = "_packages"
"""The folder with what the package needs, where it was sent: see `shipping`."""

_HOME = Path(__file__).parents[1]
_SESSION = _HOME.parent.name if _HOME.joinpath(PACKAGES).is_dir() else ""


def find(module: str, name: str, session: str) -> object:
    """Import a class, or say what has to be done so that it can be imported.

    Spark unpacks what it was sent through Spark Connect in a folder of the session. It forgets to tell the Python of
    streaming tasks, which is told here by one that knew.
    """
    import platform
    import sys
    from importlib import import_module
    from pathlib import Path

    if session and "everbrook" not in sys.modules:
        from pyspark.core.files import SparkFiles

        root = Path(SparkFiles.getRootDirectory())
        sys.path[1:1] = [str(root / session), str(root.parent / session)]
    try:
        found: object = getattr(import_module(module), name)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"the Python of a Spark worker, {sys.executable} {platform.python_version()} on {platform.node()}, can't "
            f"load everbrook ({error}): pip install 'everbrook[spark]' there, or give register() or session() "
            "ship=True, which sends it there",
            name=error.name,
        ) from error
    return found


find.__module__ = "__main__"


class Arriving(ABCMeta):
    """The type of classes that are sent to workers."""


def _sent(kind: Arriving) -> tuple[object, tuple[str, str, str]]:
    return find, (kind.__module__, kind.__name__, _SESSION)


copyreg.pickle(Arriving, _sent)  # type: ignore[arg-type]


class Task(Protocol):
    """What a task does with its rows, as Arrow batches, and what it tells of that. Its class is an `Arriving` one."""

    def write(self, batches: Iterator[Any], /) -> Iterator[Any]: ...


def as_function(task: Task) -> Callable[[Any], Iterator[Any]]:
    """Give what Spark wants. A method would be sent by the name of its module, and not say what to do without it."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        yield from task.write(batches)

    return write
