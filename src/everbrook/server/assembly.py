"""Assembly: a storage, an engine and an application from settings. The one place that knows all of them."""

import asyncio
import secrets
from pathlib import Path

from everbrook.engine.clock import Clock
from everbrook.engine.engine import Engine
from everbrook.engine.limits import PRODUCER_IDLE_MS, UNLIMITED, Limits
from everbrook.server.application import Application
from everbrook.settings import Settings, StorageMode, StorageSettings
from everbrook.storage.api import Storage
from everbrook.storage.memory import MemoryStorage


def open_storage(settings: Settings) -> Storage:
    """Open the storage that the settings name. `StoreError` says why one can't be used."""
    match settings.storage.mode:
        case StorageMode.MEMORY:
            return MemoryStorage()
        case StorageMode.ACID:
            return _open_acid(settings.storage)
        case StorageMode.FILE_FAST | StorageMode.FILE_DURABLE:
            return _open_files(settings.storage)


# The durable engines are imported when they are used: memory mode needs neither LMDB nor file locks.


def _open_acid(settings: StorageSettings) -> Storage:
    import lmdb  # noqa: PLC0415

    from everbrook.storage.acid.engine import AcidStorage  # noqa: PLC0415
    from everbrook.storage.disk import OsDisk  # noqa: PLC0415
    from everbrook.storage.manifest import StoreError  # noqa: PLC0415

    folder = Path(settings.data_dir) / "acid"
    try:
        return AcidStorage(OsDisk(), folder, shard_count=settings.acid_shard_count, salt=secrets.randbits(32))
    except lmdb.Error as error:
        raise StoreError(f"{folder} can't be opened: {error}") from error


def _open_files(settings: StorageSettings) -> Storage:
    from everbrook.storage.disk import OsDisk  # noqa: PLC0415
    from everbrook.storage.files.engine import FileStorage  # noqa: PLC0415

    durable = settings.mode is StorageMode.FILE_DURABLE
    return FileStorage(OsDisk(), Path(settings.data_dir) / "file", durable=durable, salt=secrets.randbits(32))


def assemble(settings: Settings, storage: Storage) -> Application:
    """Put an application together on the running loop."""
    engine = Engine(storage, asyncio.get_running_loop(), Clock(), limits_of(settings))
    return Application(engine, settings)


def limits_of(settings: Settings) -> Limits:
    """Give the limits that the settings and their storage mode mean."""
    mode = settings.storage.mode
    limits = settings.limits.in_mode(mode)
    return Limits(
        max_memory_bytes=limits.max_memory_bytes or UNLIMITED,
        max_stream_bytes=limits.max_stream_bytes or UNLIMITED,
        max_producers_per_stream=limits.max_producers_per_stream,
        max_page_bytes=limits.max_page_bytes,
        # What is on a disk is kept as long as its stream.
        producer_idle_ms=None if mode.durable else PRODUCER_IDLE_MS,
    )
