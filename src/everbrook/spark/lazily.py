"""Names of a package that are loaded when they are first used: tasks need only a part of it.

What is not installed is told as the extra that brings it along.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_EXTRAS = {
    "deltalake": "this needs a lake: pip install 'everbrook[lake]'",
    "psycopg": "this needs Postgres: pip install 'everbrook[postgres,spark]'",
    **dict.fromkeys(("pyspark", "pyarrow", "pandas", "numpy"), "this needs Spark: pip install 'everbrook[spark]'"),
}


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package, of the modules that its names are in."""

    def load(name: str) -> Any:  # noqa: ANN401 - whatever has that name
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(f"{package}.{places[name]}"), name)
        except ModuleNotFoundError as error:
            words = _EXTRAS.get((error.name or "").partition(".")[0])
            if words is None:
                raise
            raise ModuleNotFoundError(words, name=error.name) from error
        setattr(sys.modules[package], name, value)
        return value

    return load
