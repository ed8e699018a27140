"""Settings of the server: their schema, and the layers of files, environment and flags that fill it."""

from everbrook.settings.errors import SettingsError
from everbrook.settings.layers import Layered, load_layers, load_settings
from everbrook.settings.schema import Settings
from everbrook.settings.sections.auth import AuthSettings
from everbrook.settings.sections.http import HttpSettings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.log import LogFormat, LogLevel, LogSettings, RequestLog
from everbrook.settings.sections.observe import AuditSettings, AuditTarget, MetricsSettings, TraceSettings
from everbrook.settings.sections.server import ServerSettings, TtlRule
from everbrook.settings.sections.storage import StorageMode, StorageSettings
from everbrook.settings.sections.tls import ClientCertificates, TlsSettings, TlsVersion
from everbrook.settings.sections.ui import UiSettings
from everbrook.settings.sections.webhooks import WebhookSettings
from everbrook.settings.values import parse_origins

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
