"""Filters as logging configuration, and records as lines."""

import json
import logging
import sys

import pytest

from everbrook.cli.logs import JsonFormatter, TextFormatter, logging_config
from everbrook.settings import LogFormat, LogLevel
from everbrook.settings.log_filter import LogFilter


def record(message: str = "hello %s", **attributes: object) -> logging.LogRecord:
    made = logging.LogRecord("everbrook.engine", logging.WARNING, __file__, 1, message, ("you",), None)
    made.created = 1_700_000_000.25
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize(
    "level, number",
    [("error", logging.ERROR), ("warn", logging.WARNING), ("info", logging.INFO), ("debug", 10), ("trace", 10)],
)
def test_a_level_is_the_standard_library_s(level: str, number: int) -> None:
    config = logging_config(LogFilter(LogLevel(level), {"everbrook.engine": LogLevel(level)}), LogFormat.TEXT)
    assert config["root"]["level"] == number
    assert config["loggers"] == {"everbrook.engine": {"level": number}}


def test_off_is_above_every_level() -> None:
    config = logging_config(LogFilter(LogLevel.OFF, {}), LogFormat.TEXT)
    assert config["root"]["level"] > logging.CRITICAL


@pytest.mark.parametrize("log_format, formatter", [(LogFormat.TEXT, TextFormatter), (LogFormat.JSON, JsonFormatter)])
def test_the_format_chooses_the_formatter(log_format: LogFormat, formatter: type) -> None:
    config = logging_config(LogFilter(LogLevel.INFO, {}), log_format)
    assert config["formatters"]["chosen"]["()"] is formatter


def test_loggers_made_earlier_go_on_logging() -> None:
    assert logging_config(LogFilter(LogLevel.INFO, {}), LogFormat.TEXT)["disable_existing_loggers"] is False


def test_text_names_the_request_that_it_is_about() -> None:
    assert TextFormatter().format(record(request_id="abc")).endswith("hello you [abc]")


def test_text_is_time_level_logger_and_message() -> None:
    assert TextFormatter().format(record()) == "2023-11-14T22:13:20.250Z WARNING  everbrook.engine: hello you"


def test_json_is_one_object_a_line() -> None:
    line = JsonFormatter().format(record("two\nlines for %s"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "everbrook.engine",
        "message": "two\nlines for you",
    }


def test_json_has_what_was_passed_as_extra() -> None:
    line = json.loads(JsonFormatter().format(record(stream="a/b", peer=("::1", 4))))
    assert (line["stream"], line["peer"]) == ("a/b", ["::1", 4])


def test_an_extra_that_json_does_not_know_is_written_as_text() -> None:
    assert json.loads(JsonFormatter().format(record(error=KeyError("x"))))["error"] == "'x'"


def test_an_extra_cannot_replace_the_record_s_own_fields() -> None:
    assert json.loads(JsonFormatter().format(record(level="fake")))["level"] == "warning"


def test_json_has_the_traceback() -> None:
    try:
        raise KeyError("x")  # noqa: TRY301
    except KeyError:
        line = json.loads(JsonFormatter().format(record(exc_info=sys.exc_info())))
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("KeyError: 'x'")


def test_json_survives_text_that_is_not_unicode() -> None:
    assert json.loads(JsonFormatter().format(record("\udcff%s")))["message"] == "\udcffyou"
