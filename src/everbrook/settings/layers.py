"""The layers laid over each other: which value each setting has, and which layer gave it.

Built-in defaults, ``config/default.toml``, ``config/<profile>.toml``, ``config/local.toml``, the ``--config``
file, the environment, flags: a later one wins. Everything given is checked, also what a later layer covers.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.settings.combinations import check_together
from everbrook.settings.errors import SettingsError
from everbrook.settings.fields import FIELDS
from everbrook.settings.logfilter import LogFilter, parse_filter
from everbrook.settings.schema import Settings
from everbrook.settings.sources import Given, Layer, read_environment, read_file
from everbrook.settings.values import convert

CONFIG_DIR = Path("config")
RUST_LOG = "RUST_LOG"


class Layered(Struct, frozen=True):
    """The settings, and for each of them the winning layer's value as it was given."""

    settings: Settings
    given: Mapping[str, Given]
    log_filter: LogFilter
    log_filter_source: str


def load_settings(
    *,
    profile: str | None = None,
    config_file: Path | None = None,
    flags: Iterable[Given] = (),
    environ: Mapping[str, str] | None = None,
    config_dir: Path = CONFIG_DIR,
) -> Settings:
    """Load the settings of all layers; raise SettingsError if anything given cannot be used."""
    return load_layers(
        profile=profile, config_file=config_file, flags=flags, environ=environ, config_dir=config_dir
    ).settings


def load_layers(
    *,
    profile: str | None = None,
    config_file: Path | None = None,
    flags: Iterable[Given] = (),
    environ: Mapping[str, str] | None = None,
    config_dir: Path = CONFIG_DIR,
) -> Layered:
    """Load as `load_settings` does, and keep which layer set each value."""
    environ = os.environ if environ is None else environ
    given = {field.name: Given(field.name, field.default, Layer.BUILT_IN, "built-in") for field in FIELDS.values()}
    values = {field.name: field.default for field in FIELDS.values()}
    for layer, path, required in _files(config_dir, profile, config_file):
        _lay(given, values, read_file(path, layer, required=required))
    _lay(given, values, read_environment(environ))
    _lay(given, values, flags)
    settings = _build(values)
    check_together(settings, given)
    log_filter, source = _choose_log_filter(settings, given, environ)
    return Layered(settings, given, log_filter, source)


def _files(config_dir: Path, profile: str | None, config_file: Path | None) -> Iterator[tuple[Layer, Path, bool]]:
    yield Layer.DEFAULT_FILE, config_dir / "default.toml", False
    if profile is not None:
        if not profile or Path(profile).name != profile:
            raise SettingsError("--profile", f"must be NAME of {config_dir}/NAME.toml, got {profile!r}")
        yield Layer.PROFILE_FILE, config_dir / f"{profile}.toml", True
    yield Layer.LOCAL_FILE, config_dir / "local.toml", False
    if config_file is not None:
        yield Layer.CONFIG_FILE, config_file, True


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
) -> tuple[LogFilter, str]:
    """Let the later layer of ``log.rust_log`` and ``log.level`` decide, the filter if they are equal.

    ``RUST_LOG`` is above ``DS_LOG__RUST_LOG`` in the environment, and so below flags.
    """
    level, rust_log = given["log.level"], given["log.rust_log"]
    text, source = settings.log.rust_log, rust_log.source
    top = rust_log.layer
    if environ.get(RUST_LOG) and top <= Layer.ENVIRONMENT:
        text, source, top = environ[RUST_LOG], RUST_LOG, Layer.ENVIRONMENT
    if level.layer > top or not text:
        text, source = settings.log.level.value, level.source
    try:
        return parse_filter(text, default=settings.log.level), source
    except ValueError as error:
        raise SettingsError(source, str(error)) from None
