"""Settings of the server: their schema, and the layers of files, environment and flags that fill it."""

from everbrook.settings.checks import parse_origins
from everbrook.settings.fields import SettingsError
from everbrook.settings.load import Layered, load_layers, load_settings
from everbrook.settings.schema import Settings
from everbrook.settings.sections.auth import AuthSettings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.observe import (
    AuditSettings,
    AuditTarget,
    LogFormat,
    LogLevel,
    LogSettings,
    MetricsSettings,
    RequestLog,
    TraceSettings,
)
from everbrook.settings.sections.server import (
    ClientCertificates,
    HttpSettings,
    ServerSettings,
    TlsSettings,
    TlsVersion,
    TtlRule,
    UiSettings,
    WebhookSettings,
)
from everbrook.settings.sections.storage import StorageMode, StorageSettings

__all__ = [
    "AuditSettings",
    "AuditTarget",
    "AuthSettings",
    "ClientCertificates",
    "HttpSettings",
    "Layered",
    "LimitSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "MetricsSettings",
    "RequestLog",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "StorageMode",
    "StorageSettings",
    "TlsSettings",
    "TlsVersion",
    "TraceSettings",
    "TtlRule",
    "UiSettings",
    "WebhookSettings",
    "load_layers",
    "load_settings",
    "parse_origins",
]
