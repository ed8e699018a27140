"""What is logged, and how."""

from typing import Annotated, Self

from msgspec import Meta, Struct

from everbrook.settings.kinds import Choice, Filter, Seconds


class LogLevel(Choice):
    """How much is logged, from nothing to everything."""

    OFF = "off"
    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # Python's own name for the level; people will type it.
        return super()._missing_("warn" if str(value).lower() == "warning" else value)


class LogFormat(Choice):
    """How a log record is written."""

    TEXT = "text"
    JSON = "json"


class RequestLog(Choice):
    """Which requests are logged."""

    OFF = "off"
    ERRORS = "errors"
    SLOW = "slow"
    ALL = "all"


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged, and how."""

    level: Annotated[LogLevel, Meta(description="How much is logged where no log filter wins.")] = LogLevel.INFO
    rust_log: Annotated[Filter, Meta(description="Levels by logger; wins over a `log.level` of the same place.")] = (
        "info"
    )
    format: Annotated[LogFormat, Meta(description="`text` for people, `json` for machines: one object a line.")] = (
        LogFormat.TEXT
    )
    requests: Annotated[
        RequestLog,
        Meta(
            description=(
                "Which requests the logger `everbrook.access` tells of. `errors`: those answered 5xx. "
                "`slow`: also those that took longer than `log.slow_request_secs`. `all`: every one."
            )
        ),
    ] = RequestLog.OFF
    slow_request_secs: Annotated[
        Seconds,
        Meta(description="From when on a request is slow. Live reads wait by their nature, and never are."),
    ] = 1.0
