"""The schema as a flat list of fields, for the layers, error messages, flags and the reference page."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct, inspect

from everbrook.settings.kinds import EXPECTED
from everbrook.settings.schema import Settings

ENV_PREFIX = "DS_"
ENV_SEPARATOR = "__"
UNSET = "unset"


class SettingsError(Exception):
    """A value in a file, variable or flag can't be used. The message starts with the name of that source."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem


class Field(Struct, frozen=True):
    """One setting: ``name`` is ``section.key``."""

    section: str
    key: str
    annotation: Any
    default: Any
    description: str
    expected: str
    example: Any = None

    @property
    def optional(self) -> bool:
        """Whether the setting may be unset."""
        return self.default is None

    @property
    def name(self) -> str:
        """The name in files and messages."""
        return f"{self.section}.{self.key}"

    @property
    def env(self) -> str:
        """The name in the environment."""
        return f"{ENV_PREFIX}{self.section}{ENV_SEPARATOR}{self.key}".upper()


def plain(value: object) -> object:
    """Return a value as TOML and JSON write it: the word of an enumeration, other values unchanged."""
    return value.value if isinstance(value, Enum) else value


def format_value(value: object) -> str:
    """Write a value as TOML does, or `unset`: TOML has no word for a missing value."""
    return UNSET if value is None else json.dumps(plain(value))


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType(types=(inspect.Metadata(type=given) | given, inspect.NoneType())):
            return _expected(given)
        case inspect.EnumType(cls=words):
            *others, last = (str(word.value) for word in words)
            return f"{', '.join(others)} or {last}" if others else last
        case inspect.IntType(ge=low, le=None):
            return f"an integer of at least {low}"
        case inspect.IntType(ge=low, le=high):
            return f"an integer from {low} to {high}"
        case inspect.FloatType(ge=None, gt=low):
            return f"a finite number greater than {low}"
        case inspect.FloatType(ge=low):
            return f"a finite number of at least {low}"
        case _:
            raise TypeError(f"a {type(kind).__name__} needs words for what is expected")


def _field(section: str, info: msgspec.structs.FieldInfo) -> Field:
    kind = inspect.type_info(info.type)
    if not isinstance(kind, inspect.Metadata) or kind.extra_json_schema is None:
        raise TypeError(f"{section}.{info.name} has no description")
    return Field(
        section=section,
        key=info.name,
        annotation=info.type,
        default=info.default,
        description=kind.extra_json_schema["description"],
        expected=(kind.extra or {}).get(EXPECTED) or _expected(kind.type),
        example=next(iter(kind.extra_json_schema.get("examples", ())), None),
    )


def _fields() -> list[Field]:
    return [
        _field(section.name, info)
        for section in msgspec.structs.fields(Settings)
        for info in msgspec.structs.fields(section.type)
    ]


FIELDS: Mapping[str, Field] = {field.name: field for field in _fields()}
SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(field.section for field in FIELDS.values()))
