"""Observability: logs, metrics, traces, and the audit log."""

from typing import Annotated, Self

from msgspec import Meta, Struct

from everbrook.settings.kinds import EXPECTED, Choice, Count, FilePath, Filter, Seconds, Switch

TraceUrl = Annotated[str, Meta(extra={EXPECTED: "an http or https URL such as 'http://localhost:4318/v1/traces'"})]
Ratio = Annotated[float, Meta(ge=0, le=1, extra={EXPECTED: "a number from 0 to 1"})]
Name = Annotated[str, Meta(extra={EXPECTED: "a name"})]


class MetricsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metrics at `/metrics`, and who may read them."""

    enabled: Annotated[Switch, Meta(description="Whether `/metrics` exists and requests are counted for it.")] = True
    public: Annotated[
        Switch,
        Meta(
            description=(
                "Whether anyone may read `/metrics` if auth is configured; otherwise it takes the verb `admin`. "
                "Without auth it is open."
            )
        ),
    ] = False


class AuditTarget(Choice):
    """Where the audit log goes."""

    OFF = "off"
    LOG = "log"
    FILE = "file"


class AuditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who created, deleted, and was refused."""

    to: Annotated[
        AuditTarget,
        Meta(
            description=(
                "Where creates, deletes, reloads and refused rights are recorded. `log`: in the log, by the "
                "logger `everbrook.audit`. `file`: in `audit.path`, a JSON object per line."
            )
        ),
    ] = AuditTarget.OFF
    path: Annotated[FilePath, Meta(description="The audit file. Its folder must exist. SIGHUP reopens it.")] = (
        "./data/audit.log"
    )
    max_file_bytes: Annotated[
        Count, Meta(description="Size from which the audit file is rotated to `.1`, `.2` and so on.")
    ] = 64 * 1024 * 1024
    keep_files: Annotated[Count, Meta(description="How many rotated audit files are kept.")] = 5
    max_refusals_per_sec: Annotated[
        Count,
        Meta(description="Refusals recorded per second; the others are only counted."),
    ] = 20


class TraceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where traces are sent, by OpenTelemetry's protocol over HTTP."""

    endpoint: Annotated[
        TraceUrl,
        Meta(description="URL that receives traces (OTLP over HTTP). Empty: no traces. Needs the extra `otel`."),
    ] = ""
    sample_ratio: Annotated[
        Ratio,
        Meta(description="The fraction of requests to trace, among those whose caller does not decide it."),
    ] = 1.0
    service_name: Annotated[Name, Meta(description="The name of this service in traces.")] = "everbrook"


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

    level: Annotated[LogLevel, Meta(description="How much is logged if no log filter overrides it.")] = LogLevel.INFO
    rust_log: Annotated[Filter, Meta(description="Levels by logger; overrides a `log.level` of the same layer.")] = (
        "info"
    )
    format: Annotated[LogFormat, Meta(description="`text` for people, `json` for machines: one object a line.")] = (
        LogFormat.TEXT
    )
    requests: Annotated[
        RequestLog,
        Meta(
            description=(
                "Which requests the logger `everbrook.access` records. `errors`: those with a response of 5xx. `slow`: "
                "also those that took longer than `log.slow_request_secs`. `all`: every one."
            )
        ),
    ] = RequestLog.OFF
    slow_request_secs: Annotated[
        Seconds,
        Meta(description="Duration from which a request is slow. Live reads never are, because they wait by design."),
    ] = 1.0
