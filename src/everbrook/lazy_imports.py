"""Lazy imports: a package loads the module of a name when the name is first used (PEP 562).

So a program loads only the modules that it uses: a command that appends a message does not load the reader. A package
lists each such name twice: imported under `TYPE_CHECKING`, and in the table that it passes to `lazy_imports`.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

NO_EXTRAS: Mapping[str, str] = {}


def lazy_imports(
    module: str, names: Mapping[str, str], extras: Mapping[str, str] = NO_EXTRAS
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and the `__dir__` of a module, which is mostly a package.

    `names` maps each module that holds some of its names, written as in a relative import (`.errors`), to those names,
    separated by spaces. `extras` maps a third-party package that may be missing to a message that says which extra
    installs it.
    """
    places = {name: place for place, listed in names.items() for name in listed.split()}

    def here() -> ModuleType:
        return import_module(module)

    def load(name: str) -> Any:  # noqa: ANN401 - whatever has that name
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(places[name], here().__package__), name)
        except ModuleNotFoundError as error:
            message = extras.get((error.name or "").partition(".")[0])
            if message is None:
                raise
            raise ModuleNotFoundError(message, name=error.name) from error
        setattr(here(), name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(here()), *places})

    return load, list_names
