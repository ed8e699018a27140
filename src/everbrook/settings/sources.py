"""What each place gives: TOML files and the environment, as named values that remember where they came from.

A name that the schema does not have is an error here, so that a slip of the finger never means a default.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path

from msgspec import Struct

from everbrook.settings.errors import SettingsError
from everbrook.settings.fields import ENV_PREFIX, ENV_SEPARATOR, FIELDS, SECTIONS


class Layer(IntEnum):
    """The layers in their order: a later one wins."""

    BUILT_IN = 0
    DEFAULT_FILE = 1
    PROFILE_FILE = 2
    LOCAL_FILE = 3
    CONFIG_FILE = 4
    ENVIRONMENT = 5
    FLAGS = 6

    @property
    def label(self) -> str:
        """The name for people and machines: ``profile-file``."""
        return self.name.lower().replace("_", "-")


class Given(Struct, frozen=True):
    """A value for the setting ``name``, with the layer and the file, variable or flag that gave it."""

    name: str
    value: object
    layer: Layer
    source: str


def read_file(path: Path, layer: Layer, *, required: bool) -> Iterator[Given]:
    """Give the settings of a TOML file; a file that is not required may be missing."""
    source = str(path)
    for section, table in _load_toml(path, required=required).items():
        if section not in SECTIONS:
            raise SettingsError(source, f"unknown section [{section}]{_suggest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise SettingsError(source, f"{section} must be a section, got {table!r}")
        for key, value in table.items():
            name = f"{section}.{key}"
            if name not in FIELDS:
                raise SettingsError(source, f"unknown setting {name}{_suggest(name, FIELDS)}")
            yield Given(name, value, layer, source)


def read_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    """Give the settings of the environment; ``DS_`` names without a section are not ours and left alone."""
    fields = {field.env: field for field in FIELDS.values()}
    for variable in sorted(environ):
        if not variable.startswith(ENV_PREFIX) or ENV_SEPARATOR not in variable:
            continue
        if variable not in fields:
            raise SettingsError(variable, f"{_unknown_variable(variable)}{_suggest(variable, fields)}")
        yield Given(fields[variable].name, environ[variable], Layer.ENVIRONMENT, variable)


def _load_toml(path: Path, *, required: bool) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        if not required and isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), f"not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(path), f"not valid TOML: {error}") from None


def _unknown_variable(variable: str) -> str:
    section, _, key = variable.removeprefix(ENV_PREFIX).partition(ENV_SEPARATOR)
    if section.lower() not in SECTIONS:
        return f"unknown section {section!r}"
    return f"unknown setting {key!r} in section {section!r}"


def _suggest(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name, known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
