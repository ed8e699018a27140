"""Log filters in the notation of ``RUST_LOG``: a level for everything, and levels for single loggers.

``warn,everbrook.engine=debug`` logs warnings, and for the engine everything down to debug. A logger of Everbrook
without a level logs everything.
"""

import re

from msgspec import Struct

from everbrook.settings.sections.observe import LogLevel

ROOT_LOGGER = "everbrook"
# The name of the Rust server, so that its filters can be used unchanged.
ROOT_ALIAS = "durable_streams"

_LOGGER = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)


class LogFilter(Struct, frozen=True):
    """The levels of the named loggers, and of all others."""

    default: LogLevel
    loggers: dict[str, LogLevel]

    def level_of(self, logger: str) -> LogLevel:
        """Return the level of a logger: its own, or that of the nearest one above it."""
        while logger:
            if logger in self.loggers:
                return self.loggers[logger]
            logger = logger.rpartition(".")[0]
        return self.default


def parse_filter(text: str, *, default: LogLevel) -> LogFilter:
    """Read a filter, or raise ValueError. ``default`` is the level of loggers that it does not name."""
    loggers: dict[str, LogLevel] = {}
    for directive in filter(None, map(str.strip, text.split(","))):
        target, equals, word = directive.partition("=")
        if equals:
            loggers[_parse_logger(target)] = _parse_level(word)
        elif _names_logger(target):
            loggers[_parse_logger(target)] = LogLevel.TRACE
        else:
            default = _parse_level(target)
    return LogFilter(default=default, loggers=loggers)


def _names_logger(target: str) -> bool:
    # Only our own loggers: another lone word is more likely a misspelt level, which must be an error.
    return re.split(r"\.|::", target)[0] in {ROOT_LOGGER, ROOT_ALIAS}


def _parse_level(word: str) -> LogLevel:
    try:
        return LogLevel(word.strip())
    except ValueError:
        raise ValueError(f"{word.strip()!r} is not a log level") from None


def _parse_logger(target: str) -> str:
    name = target.strip().replace("::", ".")
    if not _LOGGER.fullmatch(name):
        raise ValueError(f"{target.strip()!r} is not the name of a logger")
    head, dot, rest = name.partition(".")
    return (ROOT_LOGGER if head == ROOT_ALIAS else head) + dot + rest
