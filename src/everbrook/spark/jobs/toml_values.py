"""Values of a TOML file: variables are expanded, every key is known, and every value has its type.

An error names the key. `${NAME}` stands for a variable of the environment, `${NAME:-otherwise}` has a default, and
`$${` stands for `${`. Only values have variables, never keys: the name of a job must not depend on where it runs.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import inspect

from everbrook.suggestions import find_nearest

T = TypeVar("T", bound=msgspec.Struct)

EXPECTED = "expected"
"""The key under which a type has a description of its values, if that of the type itself is not enough."""
_LONGEST_QUOTE = 80
_VARIABLE = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<inside>[^}]*)\}?")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?::-(?P<otherwise>.*))?", re.ASCII | re.DOTALL)


class WrongValue(ValueError):
    """A value or key is wrong; `key` is its full name."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def build(kind: type[T], table: Mapping[str, Any], key: str) -> T:
    """Build a struct from the table at `key`."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    require_known(table, fields, key)
    for name, field in fields.items():
        if name not in table and field.required:
            raise WrongValue(key, f"{name} is missing: {_expected(field.type)}")
    return kind(
        **{fields[name].name: convert(value, fields[name].type, f"{key}.{name}") for name, value in table.items()}
    )


def convert(value: Any, annotation: Any, key: str) -> Any:
    """Convert a value to the type of its field."""
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        raise WrongValue(key, f"must be {_expected(annotation)}, got {quote(value)}") from None


def require_known(given: Iterable[str], known: Iterable[str], key: str) -> None:
    """Refuse unknown keys, and suggest a known one."""
    known = list(known)
    for name in given:
        if name not in known:
            whole = f"{key}.{name}" if key else name
            raise WrongValue(whole, f"there is no such key{suggest(name, known)}")


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest of the known names, or list them."""
    known = sorted(known)
    nearest = find_nearest(name, known)
    if nearest:
        return f"; did you mean {nearest}?"
    return f"; there are {', '.join(known)}" if known else ""


def quote(value: object) -> str:
    """Format a value for an error, without the password of a URL."""
    text = repr(hide_password(value) if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def hide_password(url: str) -> str:
    """Return a URL without its password."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return url
    if not password:
        return url
    return url.replace(f":{password}@", ":…@", 1)


def _expected(annotation: Any) -> str:
    return _words(inspect.type_info(annotation))


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            return str((extra or {}).get(EXPECTED) or _words(inner))
        case inspect.UnionType(types=types):
            return " or ".join(_words(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType(values=values):
            return " or ".join(f'"{value}"' for value in values)
        case inspect.ListType(item_type=item):
            return f"a list, each {_words(item)}"
        case inspect.DictType(value_type=value) if not isinstance(value, inspect.AnyType):
            return f"a table, each value {_words(value)}"
        case _:
            return _plain_words(kind)


def _plain_words(kind: inspect.Type) -> str:
    match kind:
        case inspect.StrType(min_length=shortest):
            return "a text that is not empty" if shortest else "a text"
        case inspect.IntType(ge=low):
            return "a whole number" if low is None else f"a whole number of at least {low}"
        case inspect.BoolType():
            return "true or false"
        case inspect.DictType():
            return "a table"
        case _:
            raise TypeError(f"a {type(kind).__name__} needs words for what is expected")


def expand(value: Any, environ: Mapping[str, str], key: str = "") -> Any:
    """Expand variables in all text of a value. `key` is its place in the file, for errors."""
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
        raise WrongValue(key, f"{found[0]} must be ${{NAME}} or ${{NAME:-otherwise}}; $${{ stands for ${{ itself")
    given = environ.get(named["name"])
    if given:
        return given
    if named["otherwise"] is None:
        raise WrongValue(key, f"the variable {named['name']} is not set")
    return named["otherwise"]
