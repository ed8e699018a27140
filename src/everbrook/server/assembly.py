"""Assembly: a storage, an engine and an application from settings. The one place that knows all of them."""

import asyncio

from everbrook.engine.clock import Clock
from everbrook.engine.engine import Engine
from everbrook.engine.limits import PRODUCER_IDLE_MS, Limits
from everbrook.server.application import Application
from everbrook.settings import Settings
from everbrook.storage.api import Storage
from everbrook.storage.memory import MemoryStorage


def open_storage(_settings: Settings) -> Storage:
    """Open the storage that the settings name."""
    return MemoryStorage()


def assemble(settings: Settings, storage: Storage) -> Application:
    """Put an application together on the running loop."""
    limits = Limits(
        max_memory_bytes=settings.limits.max_memory_bytes,
        max_stream_bytes=settings.limits.max_stream_bytes,
        max_producers_per_stream=settings.limits.max_producers_per_stream,
        max_page_bytes=settings.limits.max_page_bytes,
        producer_idle_ms=PRODUCER_IDLE_MS,
    )
    engine = Engine(storage, asyncio.get_running_loop(), Clock(), limits)
    return Application(engine, settings)
