"""All settings, by sections.

A setting ``section.key`` is ``DS_SECTION__KEY`` in the environment. ``config/default.toml`` and the reference page
repeat these defaults for people, and tests compare them with this file.
"""

from msgspec import Struct

from everbrook.settings.sections.auth import AuthSettings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.observe import AuditSettings, LogSettings, MetricsSettings, TraceSettings
from everbrook.settings.sections.server import HttpSettings, ServerSettings, TlsSettings, UiSettings, WebhookSettings
from everbrook.settings.sections.storage import StorageSettings


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings; ``Settings()`` holds the defaults."""

    server: ServerSettings = ServerSettings()
    tls: TlsSettings = TlsSettings()
    http: HttpSettings = HttpSettings()
    auth: AuthSettings = AuthSettings()
    ui: UiSettings = UiSettings()
    limits: LimitSettings = LimitSettings()
    webhooks: WebhookSettings = WebhookSettings()
    storage: StorageSettings = StorageSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    audit: AuditSettings = AuditSettings()
    traces: TraceSettings = TraceSettings()
