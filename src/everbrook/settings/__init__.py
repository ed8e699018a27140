"""Settings of the server: their schema, and the layers of files, environment and flags that fill it."""

from everbrook.settings.errors import SettingsError
from everbrook.settings.layers import Layered, load_layers, load_settings
from everbrook.settings.schema import (
    HttpSettings,
    LimitSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    ServerSettings,
    Settings,
    StorageMode,
    StorageSettings,
    WebhookSettings,
)
from everbrook.settings.values import parse_origins

__all__ = [
    "HttpSettings",
    "Layered",
    "LimitSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "StorageMode",
    "StorageSettings",
    "WebhookSettings",
    "load_layers",
    "load_settings",
    "parse_origins",
]
