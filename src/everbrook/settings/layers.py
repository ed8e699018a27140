"""The layers laid over each other: which value each setting has, and which layer gave it.

Built-in defaults, ``config/default.toml``, ``everbrook.toml`` or ``[tool.everbrook]`` in ``pyproject.toml``,
``config/<profile>.toml``, ``config/local.toml``, the ``--config`` file, the environment, flags: a later one wins.
Everything given is checked, also what a later layer covers.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.settings.combinations import check_together
from everbrook.settings.errors import SettingsError
from everbrook.settings.fields import FIELDS
from everbrook.settings.logfilter import LogFilter, parse_filter
from everbrook.settings.schema import Settings
from everbrook.settings.sections.log import LogLevel, RequestLog
from everbrook.settings.sources import Found, Given, Layer, find_file, find_project_file, read_environment, read_file
from everbrook.settings.values import convert

CONFIG_DIR = "config"
RUST_LOG = "RUST_LOG"
REQUEST_LOGGER = "everbrook.access"
DEBUGGING = {LogLevel.DEBUG, LogLevel.TRACE}
"""Levels at which requests are logged, unless a later layer sets `log.requests`."""


class Layered(Struct, frozen=True):
    """The settings, and for each of them the winning layer's value as it was given."""

    settings: Settings
    given: Mapping[str, Given]
    log_filter: LogFilter
    log_filter_source: str
    remarks: Sequence[str]
    """Which files were found and left alone, and why."""


def load_settings(
    *,
    profile: str | None = None,
    config_file: Path | None = None,
    flags: Iterable[Given] = (),
    environ: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> Settings:
    """Load the settings of all layers; raise SettingsError if anything given cannot be used.

    `folder` is where files are looked for.
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
    _lay(given, values, read_environment(environ))
    _lay(given, values, flags)
    settings = _build(values)
    check_together(settings, given)
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
    """Let the later layer of ``log.rust_log`` and ``log.level`` decide, the filter if they are equal.

    ``RUST_LOG`` is above ``DS_LOG__RUST_LOG`` in the environment, and so below flags. Gives the filter, and the source
    and the layer that it is from.
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
