"""All settings together: a section each.

A setting ``section.key`` is ``DS_SECTION__KEY`` in the environment. ``config/default.toml`` and the reference
page repeat these defaults for people to read, and tests hold them to this file.
"""

from msgspec import Struct

from everbrook.settings.sections.http import HttpSettings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.log import LogSettings
from everbrook.settings.sections.server import ServerSettings
from everbrook.settings.sections.storage import StorageSettings
from everbrook.settings.sections.webhooks import WebhookSettings


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings; ``Settings()`` holds the defaults."""

    server: ServerSettings = ServerSettings()
    http: HttpSettings = HttpSettings()
    limits: LimitSettings = LimitSettings()
    webhooks: WebhookSettings = WebhookSettings()
    storage: StorageSettings = StorageSettings()
    log: LogSettings = LogSettings()
