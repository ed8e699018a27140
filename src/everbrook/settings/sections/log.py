"""What is logged, and how."""

from typing import Annotated, Self

from msgspec import Meta, Struct

from everbrook.settings.kinds import Choice, Filter


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


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged, and how."""

    level: Annotated[LogLevel, Meta(description="How much is logged where no log filter wins.")] = LogLevel.INFO
    rust_log: Annotated[Filter, Meta(description="Levels by logger; wins over a `log.level` of the same place.")] = (
        "info"
    )
    format: Annotated[LogFormat, Meta(description="`text` for people, `json` for machines: one object a line.")] = (
        LogFormat.TEXT
    )
