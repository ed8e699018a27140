"""Classes that are sent to workers: they are imported there, from the installed package or from where it was sent.

A class is pickled as its name, with a small function that imports it or raises a clear error. Spark pickles functions
of `__main__` by value, so this one needs nothing on the worker but Python and Spark.
"""

import copyreg
import gc
from abc import ABCMeta
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

PACKAGES = "_packages"
"""The folder of the dependencies in a package that was sent: see `package_archive`."""

_HOME = Path(__file__).parents[1]
_SESSION = _HOME.parent.name if _HOME.joinpath(PACKAGES).is_dir() else ""


def find(module: str, name: str, session: str) -> object:
    """Import a class, or raise an error that says how to install it on the worker.

    Spark unpacks files that came through Spark Connect in a folder of the session, and does not put this folder on the
    path of streaming tasks. `session` names it.
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


# Pickle sends functions of `__main__` by value, others by the name of a module that a worker may lack.
find.__module__ = "__main__"


class Arriving(ABCMeta):
    """The type of classes that are sent to workers."""


def _sent(kind: Arriving) -> tuple[object, tuple[str, str, str]]:
    return find, (kind.__module__, kind.__name__, _SESSION)


copyreg.pickle(Arriving, _sent)  # type: ignore[arg-type]


@cache
def settle_worker() -> None:
    """Exempt what a worker has loaded from garbage collection, which Spark requests after each task: it takes 30 ms."""
    gc.freeze()


class Task(Protocol):
    """The work of a task: Arrow batches in, a report as Arrow batches out. Its class is an `Arriving` one."""

    def write(self, batches: Iterator[Any], /) -> Iterator[Any]: ...


def as_function(task: Task) -> Callable[[Any], Iterator[Any]]:
    """Return the function that Spark calls. Spark would pickle a method by its module, so that a worker without the
    package would fail without advice.
    """

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        yield from task.write(batches)

    return write
