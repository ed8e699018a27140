"""Settings of the server: their schema, and the layers of files, environment and flags that fill it."""

from everbrook.settings.errors import SettingsError
from everbrook.settings.layers import Layered, load_layers, load_settings
from everbrook.settings.schema import Settings
from everbrook.settings.sections.http import HttpSettings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.log import LogFormat, LogLevel, LogSettings
from everbrook.settings.sections.server import ServerSettings
from everbrook.settings.sections.storage import StorageMode, StorageSettings
from everbrook.settings.sections.webhooks import WebhookSettings
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
