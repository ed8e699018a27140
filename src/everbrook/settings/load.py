"""The layers of settings: which value each setting has, and which layer set it.

Built-in defaults, ``config/default.toml``, ``everbrook.toml`` or ``[tool.everbrook]`` in ``pyproject.toml``,
``config/<profile>.toml``, ``config/local.toml``, the ``--config`` file, the environment, flags: a later one wins. Every
value is checked, even one that a later layer overrides. A name that the schema does not have is an error: otherwise a
misspelt name would silently mean the default. The exception is a file of the folder `config` that belongs to another
program: it is ignored.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.settings.checks import convert, find_conflicts
from everbrook.settings.fields import ENV_PREFIX, ENV_SEPARATOR, FIELDS, SECTIONS, SettingsError
from everbrook.settings.log_filter import LogFilter, parse_filter
from everbrook.settings.schema import Settings
from everbrook.settings.sections.observe import LogLevel, RequestLog
from everbrook.suggestions import suggest

PROJECT_FILE = "everbrook.toml"
PYPROJECT = "pyproject.toml"
MARKER = "everbrook"
"""`everbrook = true` marks a file as Everbrook's; `[tool.everbrook]` has the settings in `pyproject.toml`."""

CONFIG_DIR = "config"
RUST_LOG = "RUST_LOG"
REQUEST_LOGGER = "everbrook.access"
DEBUGGING = {LogLevel.DEBUG, LogLevel.TRACE}
"""Levels at which requests are logged, unless a later layer sets `log.requests`."""


class Layer(IntEnum):
    """The layers in their order: a later one wins."""

    BUILT_IN = 0
    DEFAULT_FILE = 1
    PROJECT_FILE = 2
    PROFILE_FILE = 3
    LOCAL_FILE = 4
    CONFIG_FILE = 5
    ENVIRONMENT = 6
    FLAGS = 7

    @property
    def label(self) -> str:
        """The name for people and machines: ``profile-file``."""
        return self.name.lower().replace("_", "-")


class Given(Struct, frozen=True):
    """A value for the setting ``name``, with its layer and its source: a file, a variable or a flag."""

    name: str
    value: object
    layer: Layer
    source: str


class Found(Struct, frozen=True):
    """The settings of a file that was found, or the reason why it is ignored."""

    given: Sequence[Given] = ()
    remark: str = ""


def read_file(path: Path, layer: Layer) -> list[Given]:
    """Return the settings of a TOML file that the user named."""
    return _read_tables(_load_toml(path), layer, str(path))


def find_file(path: Path, layer: Layer) -> Found:
    """Return the settings of a file of the folder `config`, if it exists and is Everbrook's.

    Other programs use files of these names too. Ours have the line `everbrook = true`, or only sections of the schema.
    """
    tables = _load_found(path)
    if tables.get(MARKER) is not True and not tables.keys() <= set(SECTIONS):
        foreign = ", ".join(f"[{name}]" for name in tables if name not in SECTIONS)
        return Found(
            remark=f"{path} is not read: {foreign} is no section of Everbrook. "
            f"If the file is meant for Everbrook, begin it with the line `{MARKER} = true`"
        )
    return Found(_read_tables(tables, layer, str(path)))


def find_project_file(folder: Path, layer: Layer) -> Found:
    """Return the settings of `everbrook.toml`, or without one those of `[tool.everbrook]` in `pyproject.toml`."""
    own, shared = folder / PROJECT_FILE, folder / PYPROJECT
    tools = _load_found(shared).get("tool")
    table = tools.get(MARKER) if isinstance(tools, dict) else None
    if own.exists():
        remark = "" if table is None else f"[tool.{MARKER}] in {shared} is not read, because there is {own}"
        return Found(_read_tables(_load_found(own), layer, str(own)), remark)
    if table is None:
        return Found()
    if not isinstance(table, dict):
        raise SettingsError(str(shared), f"tool.{MARKER} must be a table, got {table!r}")
    return Found(_read_tables(table, layer, str(shared)))


def _read_tables(tables: Mapping[str, object], layer: Layer, source: str) -> list[Given]:
    found: list[Given] = []
    for section, table in tables.items():
        if section == MARKER and table is True:
            continue
        if section not in SECTIONS:
            raise SettingsError(source, f"unknown section [{section}]{suggest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise SettingsError(source, f"{section} must be a section, got {table!r}")
        for key, value in table.items():
            name = f"{section}.{key}"
            if name not in FIELDS:
                raise SettingsError(source, f"unknown setting {name}{suggest(name, FIELDS)}")
            found.append(Given(name, value, layer, source))
    return found


def read_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    """Yield the settings of the environment. ``DS_`` names without a section belong to other programs."""
    fields = {field.env: field for field in FIELDS.values()}
    # Sorted, so that of several errors always the same one is reported.
    for variable in sorted(environ):
        if not variable.startswith(ENV_PREFIX) or ENV_SEPARATOR not in variable:
            continue
        if variable not in fields:
            raise SettingsError(variable, f"{_unknown_variable(variable)}{suggest(variable, fields)}")
        yield Given(fields[variable].name, environ[variable], Layer.ENVIRONMENT, variable)


def _load_found(path: Path) -> dict[str, object]:
    """Load a file, or return no settings if it is missing."""
    try:
        return _load_toml(path)
    except SettingsError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return {}
        raise


def _load_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), f"not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(path), f"not valid TOML: {error}") from None


def _unknown_variable(variable: str) -> str:
    section, _, key = variable.removeprefix(ENV_PREFIX).partition(ENV_SEPARATOR)
    if section.lower() not in SECTIONS:
        return f"unknown section {section!r}"
    return f"unknown setting {key!r} in section {section!r}"


class Layered(Struct, frozen=True):
    """The settings, and for each of them the value of the winning layer, unconverted."""

    settings: Settings
    given: Mapping[str, Given]
    log_filter: LogFilter
    log_filter_source: str
    remarks: Sequence[str]
    """Files that were found and ignored, with the reason."""


def load_settings(
    *,
    profile: str | None = None,
    config_file: Path | None = None,
    flags: Iterable[Given] = (),
    environ: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> Settings:
    """Load the settings of all layers, or raise SettingsError if a value can't be used.

    `folder` is the folder with the files.
    """
    return load_layers(profile=profile, config_file=config_file, flags=flags, environ=environ, folder=folder).settings


def load_layers(
    *,
    profile: str | None = None,
    config_file: Path | None = None,
    flags: Iterable[Given] = (),
    environ: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> Layered:
    """Load as `load_settings` does, and keep which layer set each value."""
    environ = os.environ if environ is None else environ
    given = {field.name: Given(field.name, field.default, Layer.BUILT_IN, "built-in") for field in FIELDS.values()}
    values = {field.name: field.default for field in FIELDS.values()}
    remarks: list[str] = []
    for found in _find_files(folder, profile, config_file):
        _lay(given, values, found.given)
        remarks += [found.remark] if found.remark else []
    # The order of the calls is the precedence of the layers: a later one wins.
    _lay(given, values, read_environment(environ))
    _lay(given, values, flags)
    settings = _build(values)
    # Only the result of all layers must be consistent: one layer may set what another one needs.
    for name, problem in find_conflicts(settings):
        raise SettingsError(given[name].source, f"{name} {problem}")
    log_filter, source, layer = _choose_log_filter(settings, given, environ)
    if log_filter.level_of(REQUEST_LOGGER) in DEBUGGING and layer > given["log.requests"].layer:
        _lay(given, values, [Given("log.requests", RequestLog.ALL.value, layer, source)])
        settings = _build(values)
    return Layered(settings, given, log_filter, source, remarks)


def _find_files(folder: Path, profile: str | None, config_file: Path | None) -> Iterator[Found]:
    config = folder / CONFIG_DIR
    yield find_file(config / "default.toml", Layer.DEFAULT_FILE)
    yield find_project_file(folder, Layer.PROJECT_FILE)
    if profile is not None:
        # A name with a slash could read a file outside of the folder.
        if not profile or Path(profile).name != profile:
            raise SettingsError("--profile", f"must be NAME of {config}/NAME.toml, got {profile!r}")
        yield Found(read_file(config / f"{profile}.toml", Layer.PROFILE_FILE))
    yield find_file(config / "local.toml", Layer.LOCAL_FILE)
    if config_file is not None:
        yield Found(read_file(config_file, Layer.CONFIG_FILE))


def _lay(given: dict[str, Given], values: dict[str, object], layer: Iterable[Given]) -> None:
    for one in layer:
        text = one.layer >= Layer.ENVIRONMENT
        values[one.name] = convert(FIELDS[one.name], one.value, source=one.source, text=text)
        given[one.name] = one


def _build(values: Mapping[str, object]) -> Settings:
    sections: dict[str, dict[str, object]] = {}
    for field in FIELDS.values():
        sections.setdefault(field.section, {})[field.key] = values[field.name]
    return msgspec.convert(sections, Settings)


def _choose_log_filter(
    settings: Settings, given: Mapping[str, Given], environ: Mapping[str, str]
) -> tuple[LogFilter, str, Layer]:
    """Return the filter of the later layer of ``log.rust_log`` and ``log.level``, with its source and layer.

    In the same layer the filter wins. ``RUST_LOG`` is above ``DS_LOG__RUST_LOG`` in the environment, and below flags.
    """
    level, rust_log = given["log.level"], given["log.rust_log"]
    text, source = settings.log.rust_log, rust_log.source
    top = rust_log.layer
    if environ.get(RUST_LOG) and top <= Layer.ENVIRONMENT:
        text, source, top = environ[RUST_LOG], RUST_LOG, Layer.ENVIRONMENT
    if level.layer > top or not text:
        text, source, top = settings.log.level.value, level.source, level.layer
    try:
        return parse_filter(text, default=settings.log.level), source, top
    except ValueError as error:
        raise SettingsError(source, str(error)) from None
