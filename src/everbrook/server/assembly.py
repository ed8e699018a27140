"""Assembly: makes a storage, an engine and an application from settings. Only this module knows all of them."""

import asyncio
import logging
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from everbrook.engine.clock import Clock
from everbrook.engine.engine import Engine
from everbrook.engine.limits import MAX_LOADED_BYTES, PRODUCER_IDLE_MS, UNLIMITED, Limits
from everbrook.server.application import Application
from everbrook.server.auth.credentials import Authenticator
from everbrook.server.auth.policy import Authentication, Authorization
from everbrook.server.auth.proxies import Proxies
from everbrook.server.exchange import Gate
from everbrook.server.limits.concurrency import ConcurrencyLimits
from everbrook.server.limits.descriptors import allot, descriptor_limit
from everbrook.server.limits.rates import address_gate, identity_gate
from everbrook.server.location import StreamRoots
from everbrook.server.observe.event_loop import TimedScheduler
from everbrook.server.observe.observer import observer_of
from everbrook.server.tuning import DEFAULT_TUNING, AuthTuning, ListenerTuning, ServerTuning
from everbrook.settings import Settings, StorageMode, StorageSettings
from everbrook.storage.api import Storage
from everbrook.storage.manifest import MANIFEST, StoreError, find_manifest, require_kind
from everbrook.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from everbrook.storage.tuning import StorageTuning

logger = logging.getLogger(__name__)

# Which parts of `limits.max_memory_bytes` recent changes and loaded streams may take in the durable modes.
RECENT_PART = 4
LOADED_PART = 2
MIN_CHECKPOINT_BYTES = 256 * 1024


def open_storage(settings: Settings) -> Storage:
    """Open the storage of the settings, or raise `StoreError` if it can't be used."""
    require_no_unused_store(settings.storage)
    if not settings.storage.mode.durable:
        return MemoryStorage()
    # Imported here, because memory mode needs neither LMDB nor file locks.
    import lmdb

    from everbrook.storage.check import WalkedOpening
    from everbrook.storage.disk import OsDisk, boot_id
    from everbrook.storage.durable import ACID, FILE_DURABLE, FILE_FAST, DurableStorage

    modes = {StorageMode.ACID: ACID, StorageMode.FILE_DURABLE: FILE_DURABLE, StorageMode.FILE_FAST: FILE_FAST}
    if settings.storage.acid_shard_count > 1:
        logger.info("storage.acid_shard_count has no effect: one journal serves every stream")
    folder, mode = settings.storage.store_dir, modes[settings.storage.mode]
    boot = boot_id()
    opening = WalkedOpening(boot)
    try:
        return DurableStorage(
            OsDisk(),
            folder,
            mode,
            salt=secrets.randbits(63),
            boot=boot,
            tuning=storage_tuning(settings.limits.max_memory_bytes),
            open_environment=opening.open,
            begin_walk=opening.walk,
        )
    except lmdb.Error as error:
        raise StoreError(f"{folder} can't be opened: {error}") from error


def storage_tuning(max_memory_bytes: int | None) -> "StorageTuning":
    """Return the sizes of a durable storage whose recent changes take at most a quarter of the allowed memory."""
    from everbrook.storage.tuning import DEFAULT_TUNING

    if max_memory_bytes is None:
        return DEFAULT_TUNING
    recent_bytes = max_memory_bytes // RECENT_PART // DEFAULT_TUNING.max_recent_checkpoints
    return replace(
        DEFAULT_TUNING, checkpoint_bytes=min(DEFAULT_TUNING.checkpoint_bytes, max(recent_bytes, MIN_CHECKPOINT_BYTES))
    )


def require_no_unused_store(settings: StorageSettings) -> None:
    """Refuse a data folder with a store that the mode does not use, unless the settings allow it."""
    if settings.allow_unused_store:
        return
    modes = [mode for mode in StorageMode if mode.store not in {"", settings.mode.store}]
    unused = [mode.value for mode in modes if (Path(settings.data_dir) / mode.store / MANIFEST).is_file()]
    if unused:
        theirs, ours = " or ".join(unused), settings.mode.value
        raise StoreError(
            f"{settings.data_dir} holds a store of storage {theirs}, which storage {ours} does not use. "
            f"To use it, set storage.mode (--storage) to {theirs}; to start elsewhere, set storage.data_dir "
            f"(--data-dir); to leave it unused, set storage.allow_unused_store (--allow-unused-store)"
        )


def find_store(settings: Settings) -> None:
    """Raise `StoreError` if there is a store that this version can't open with these settings."""
    from everbrook.storage.disk import OsDisk

    require_no_unused_store(settings.storage)
    mode, folder = settings.storage.mode, settings.storage.store_dir
    if mode.durable and (folder / MANIFEST).is_file() and (found := find_manifest(OsDisk(), folder)):
        require_kind(folder, found, folder.name)


def assemble(
    settings: Settings, storage: Storage, tuning: ServerTuning = DEFAULT_TUNING, clock: Clock | None = None
) -> Application:
    """Make an application on the running loop."""
    limits = limits_of(settings, tuning.listener)
    proxies = Proxies(settings.auth.trusted_proxies, settings.auth.identity_header)
    observer = observer_of(settings, proxies.client_address)
    scheduler = TimedScheduler(asyncio.get_running_loop(), observer.turns)
    engine = Engine(storage, scheduler, clock or Clock(), limits, tuning=tuning.engine)
    concurrency = ConcurrencyLimits(settings.limits, proxies)
    authenticator = Authenticator(settings.auth, proxies, tuning.auth) if settings.auth.configured else None
    gates = gates_of(settings, proxies, concurrency, authenticator, tuning.auth)
    return Application(engine, settings, gates, concurrency, authenticator, observer, tuning)


def gates_of(
    settings: Settings,
    proxies: Proxies,
    concurrency: ConcurrencyLimits,
    authenticator: Authenticator | None = None,
    tuning: AuthTuning = DEFAULT_TUNING.auth,
) -> list[Gate]:
    """Make the gates of the settings, in this order: address limits, authentication, identity limits, rights.

    Limits of addresses are first, because authentication is expensive. Rights are last, so that the refusals of a
    client that sends too many requests reveal nothing about rights.
    """
    limits = settings.limits
    gates = [
        address_gate(limits, proxies.client_address),
        Authentication(authenticator) if authenticator else None,
        identity_gate(limits),
        concurrency if limits.max_connections_per_identity else None,
        _authorization(settings, authenticator, tuning) if authenticator else None,
    ]
    return [gate for gate in gates if gate]


def _authorization(settings: Settings, authenticator: Authenticator, tuning: AuthTuning) -> Authorization:
    return Authorization(
        authenticator,
        StreamRoots(settings.server),
        settings.auth.public_read,
        public_metrics=settings.metrics.public,
        recheck_secs=tuning.recheck_secs,
    )


def limits_of(settings: Settings, tuning: ListenerTuning = DEFAULT_TUNING.listener) -> Limits:
    """Return the limits of the engine for the settings and their storage mode."""
    mode = settings.storage.mode
    limits = settings.limits.in_mode(mode)
    most = limits.max_memory_bytes or UNLIMITED
    return Limits(
        # In the durable modes, recent changes have a part of the memory, and loaded streams have another.
        max_memory_bytes=UNLIMITED if mode.durable else most,
        max_bucket_memory_bytes=limits.max_bucket_memory_bytes or UNLIMITED,
        max_loaded_bytes=min(MAX_LOADED_BYTES, most // LOADED_PART),
        max_stream_bytes=limits.max_stream_bytes or UNLIMITED,
        max_total_bytes=limits.max_total_bytes or UNLIMITED,
        max_bucket_bytes=limits.max_bucket_bytes or UNLIMITED,
        max_bucket_streams=limits.max_bucket_streams or UNLIMITED,
        max_producers_per_stream=limits.max_producers_per_stream,
        max_subscriptions=limits.max_subscriptions,
        max_wake_stream_bytes=limits.max_wake_stream_bytes,
        max_fork_depth=limits.max_fork_depth,
        max_page_bytes=limits.max_page_bytes,
        max_open_blobs=allot(settings, descriptor_limit(), tuning).blobs if mode.durable else UNLIMITED,
        # On a disk, producers are kept as long as their stream.
        producer_idle_ms=None if mode.durable else PRODUCER_IDLE_MS,
    )
