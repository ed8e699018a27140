"""Logging as the settings ask for it, on standard error. The library itself only ever asks for a logger."""

import json
import logging
import logging.config
from datetime import UTC, datetime
from typing import Any

from everbrook.settings import LogFormat, LogLevel
from everbrook.settings.log_filter import LogFilter

TOLD = "everbrook.told"
"""The logger for messages to the person who started the server."""

LEVELS = {
    LogLevel.OFF: logging.CRITICAL + 10,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARN: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
    # Python has nothing finer.
    LogLevel.TRACE: logging.DEBUG,
}

# What every record has; anything else was passed as ``extra``.
_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """Time, level, logger, message and the id of the request in a line, then a traceback if there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-8s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Write a record, with the id of its request if it is about one."""
        line = super().formatMessage(record)
        request_id = vars(record).get("request_id")
        return f"{line} [{request_id}]" if request_id else line

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's name
        return _time(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with what was passed as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {key: value for key, value in vars(record).items() if key not in _OWN_ATTRIBUTES}
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(extra | line, default=str)


FORMATTERS = {LogFormat.TEXT: TextFormatter, LogFormat.JSON: JsonFormatter}


def logging_config(log_filter: LogFilter, log_format: LogFormat) -> dict[str, Any]:
    """Write filter and format as the standard library's logging configuration."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"chosen": {"()": FORMATTERS[log_format]}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "chosen"}},
        "root": {"level": LEVELS[log_filter.default], "handlers": ["stderr"]},
        "loggers": {name: {"level": LEVELS[level]} for name, level in log_filter.loggers.items()},
    }


def configure_logging(log_filter: LogFilter, log_format: LogFormat) -> None:
    """Log in this process as asked."""
    logging.config.dictConfig(logging_config(log_filter, log_format))
    # A person reads these lines on standard output already.
    logging.getLogger(TOLD).disabled = log_format is LogFormat.TEXT


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
