"""Variables of the environment in the values of a file: `${NAME}`, or `${NAME:-default}` if it may be missing.

`$${` stands for a literal `${`. Keys have no variables, because the name of a job must not depend on its environment.
"""

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<inside>[^}]*)\}?")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?::-(?P<otherwise>.*))?", re.ASCII | re.DOTALL)


class MissingVariable(ValueError):
    """A value has a variable that is not set, or whose name is invalid."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def expand(value: Any, environ: Mapping[str, str], key: str = "") -> Any:
    """Put variables into all text of a value. `key` is where it stands, for whoever has to mend it."""
    if isinstance(value, dict):
        return {name: expand(inner, environ, f"{key}.{name}" if key else name) for name, inner in value.items()}
    if isinstance(value, list):
        return [expand(inner, environ, key) for inner in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found, environ, key), value)
    return value


def _value(found: re.Match[str], environ: Mapping[str, str], key: str) -> str:
    if found["escaped"]:
        return "${"
    named = _NAME.fullmatch(found["inside"]) if found[0].endswith("}") else None
    if named is None:
        raise MissingVariable(key, f"{found[0]} must be ${{NAME}} or ${{NAME:-otherwise}}; $${{ stands for ${{ itself")
    given = environ.get(named["name"])
    if given:
        return given
    if named["otherwise"] is None:
        raise MissingVariable(key, f"the variable {named['name']} is not set")
    return named["otherwise"]
