"""The notation of log filters, and which of the three ways to say one wins."""

import re

import pytest

from everbrook.settings import Layered, LogLevel, SettingsError, load_layers
from everbrook.settings.load import Given, Layer
from everbrook.settings.log_filter import LogFilter, parse_filter
from tests.unit.settings.conftest import WriteConfig

LEVEL_FLAG = Given("log.level", "error", Layer.FLAGS, "--log-level")


@pytest.mark.parametrize(
    "text, default, loggers",
    [
        ("debug", "debug", {}),
        ("WARN", "warn", {}),
        ("off", "off", {}),
        ("", "info", {}),
        (" , ", "info", {}),
        ("everbrook.engine=debug", "info", {"everbrook.engine": "debug"}),
        ("everbrook.engine=debug,warn", "warn", {"everbrook.engine": "debug"}),
        (" warn , everbrook.server = trace ", "warn", {"everbrook.server": "trace"}),
        ("durable_streams=debug", "info", {"everbrook": "debug"}),
        ("durable_streams::engine=off", "info", {"everbrook.engine": "off"}),
        ("everbrook", "info", {"everbrook": "trace"}),
        ("everbrook.engine", "info", {"everbrook.engine": "trace"}),
        ("asyncio=error", "info", {"asyncio": "error"}),
        ("debug,error", "error", {}),
    ],
)
def test_a_filter_is_a_level_and_levels_by_logger(text: str, default: str, loggers: dict[str, str]) -> None:
    expected = LogFilter(LogLevel(default), {name: LogLevel(word) for name, word in loggers.items()})
    assert parse_filter(text, default=LogLevel.INFO) == expected


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("debgu", "'debgu' is not a log level"),
        ("everbrook=", "'' is not a log level"),
        ("everbrook=info=debug", "'info=debug' is not a log level"),
        ("=debug", "'' is not the name of a logger"),
        ("everbrook[span]=debug", "'everbrook[span]' is not the name of a logger"),
        ("everbrook.[span]", "'everbrook.[span]' is not the name of a logger"),
        ("everbrook..engine=debug", "'everbrook..engine' is not the name of a logger"),
    ],
)
def test_a_malformed_filter_is_refused_with_the_part_that_is(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(wrong)}$"):
        parse_filter(text, default=LogLevel.INFO)


def load(environ: dict[str, str], *flags: Given) -> Layered:
    return load_layers(environ=environ, flags=flags)


@pytest.fixture(autouse=True)
def _no_files(write_config: WriteConfig) -> None:
    """Start in a folder without configuration."""


def test_by_default_everything_from_info_on_is_logged() -> None:
    layered = load({})
    assert (layered.log_filter, layered.log_filter_source) == (LogFilter(LogLevel.INFO, {}), "built-in")


def test_the_plain_level_works_alone() -> None:
    layered = load({"DS_LOG__LEVEL": "debug"})
    assert layered.log_filter == LogFilter(LogLevel.DEBUG, {})
    assert layered.log_filter_source == "DS_LOG__LEVEL"


def test_rust_log_wins_over_the_setting_and_the_level() -> None:
    layered = load({"RUST_LOG": "error", "DS_LOG__RUST_LOG": "debug", "DS_LOG__LEVEL": "warn"})
    assert (layered.log_filter.default, layered.log_filter_source) == ("error", "RUST_LOG")


def test_the_filter_wins_over_the_level_of_the_same_layer() -> None:
    layered = load({"DS_LOG__RUST_LOG": "debug", "DS_LOG__LEVEL": "warn"})
    assert (layered.log_filter.default, layered.log_filter_source) == ("debug", "DS_LOG__RUST_LOG")


def test_the_level_of_the_environment_wins_over_the_filter_of_a_file(write_config: WriteConfig) -> None:
    write_config("default.toml", '[log]\nrust_log = "info"\n')
    assert load({"DS_LOG__LEVEL": "debug"}).log_filter.default == "debug"


def test_the_filter_of_the_environment_wins_over_the_level_of_a_file(write_config: WriteConfig) -> None:
    write_config("default.toml", '[log]\nlevel = "debug"\n')
    assert load({"DS_LOG__RUST_LOG": "warn"}).log_filter.default == "warn"


def test_a_level_flag_wins_over_rust_log() -> None:
    layered = load({"RUST_LOG": "debug", "DS_LOG__RUST_LOG": "debug"}, LEVEL_FLAG)
    assert (layered.log_filter.default, layered.log_filter_source) == ("error", "--log-level")


def test_loggers_a_filter_does_not_name_keep_the_plain_level() -> None:
    layered = load({"RUST_LOG": "everbrook.engine=debug", "DS_LOG__LEVEL": "warn"})
    assert layered.log_filter == LogFilter(LogLevel.WARN, {"everbrook.engine": LogLevel.DEBUG})


@pytest.mark.parametrize("environ", [{"RUST_LOG": ""}, {"DS_LOG__RUST_LOG": ""}])
def test_an_empty_filter_counts_as_not_given(environ: dict[str, str]) -> None:
    layered = load(environ | {"DS_LOG__LEVEL": "warn"})
    assert layered.log_filter == LogFilter(LogLevel.WARN, {})
    assert layered.log_filter_source == "DS_LOG__LEVEL"


def test_a_malformed_rust_log_is_refused_by_its_name() -> None:
    with pytest.raises(SettingsError) as caught:
        load({"RUST_LOG": "debgu"})
    assert str(caught.value) == "RUST_LOG: 'debgu' is not a log level"


@pytest.mark.parametrize(
    "environ, requests",
    [
        ({}, "off"),
        ({"RUST_LOG": "debug"}, "all"),
        ({"DS_LOG__LEVEL": "trace"}, "all"),
        ({"RUST_LOG": "everbrook.access"}, "all"),
        ({"RUST_LOG": "everbrook.engine=debug"}, "off"),
        ({"RUST_LOG": "debug,everbrook=info"}, "off"),
        ({"RUST_LOG": "debug", "DS_LOG__REQUESTS": "errors"}, "errors"),
    ],
)
def test_requests_are_logged_where_their_logger_is_told_to_debug(environ: dict[str, str], requests: str) -> None:
    assert load(environ).settings.log.requests == requests


def test_requests_are_logged_by_a_debug_level_above_the_file_that_sets_them(write_config: WriteConfig) -> None:
    write_config("default.toml", '[log]\nrequests = "off"\n')
    layered = load({"RUST_LOG": "debug"})
    assert (layered.settings.log.requests, layered.given["log.requests"].source) == ("all", "RUST_LOG")
