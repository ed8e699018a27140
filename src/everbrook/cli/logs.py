"""Configures logging on standard error according to the settings. The library itself configures no logging."""

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
    # Python has no finer level.
    LogLevel.TRACE: logging.DEBUG,
}

# The attributes that every record has; others were passed as ``extra``.
_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """Formats a line with time, level, logger, message and request id, then the traceback if there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-8s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Append the id of the request, if the record has one."""
        line = super().formatMessage(record)
        request_id = vars(record).get("request_id")
        return f"{line} [{request_id}]" if request_id else line

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's name
        return _time(record)


class JsonFormatter(logging.Formatter):
    """Formats a JSON object in one line, with the attributes that were passed as ``extra``."""

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
    """Convert filter and format to a configuration for `logging.config`."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"chosen": {"()": FORMATTERS[log_format]}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "chosen"}},
        "root": {"level": LEVELS[log_filter.default], "handlers": ["stderr"]},
        "loggers": {name: {"level": LEVELS[level]} for name, level in log_filter.loggers.items()},
    }


def configure_logging(log_filter: LogFilter, log_format: LogFormat) -> None:
    """Configure the logging of this process."""
    logging.config.dictConfig(logging_config(log_filter, log_format))
    # The person at the terminal sees these lines on standard output already.
    logging.getLogger(TOLD).disabled = log_format is LogFormat.TEXT


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
