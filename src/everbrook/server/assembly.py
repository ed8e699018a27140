"""Assembly: a storage, an engine and an application from settings. The one place that knows all of them."""

import asyncio
import secrets

from everbrook.engine.clock import Clock
from everbrook.engine.engine import Engine
from everbrook.engine.limits import PRODUCER_IDLE_MS, UNLIMITED, Limits
from everbrook.server.application import Application
from everbrook.server.auth.authenticating import Authenticator
from everbrook.server.auth.authorizing import Authentication, Authorization
from everbrook.server.auth.proxies import Proxies
from everbrook.server.auth.tuning import AuthTuning
from everbrook.server.exchange import Gate
from everbrook.server.limits.holdings import Holdings
from everbrook.server.limits.rates import address_gate, identity_gate
from everbrook.server.observe.assembling import observer_of
from everbrook.server.tuning import DEFAULT_TUNING, ServerTuning
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

    folder = settings.store_dir
    try:
        return AcidStorage(OsDisk(), folder, shard_count=settings.acid_shard_count, salt=secrets.randbits(32))
    except lmdb.Error as error:
        raise StoreError(f"{folder} can't be opened: {error}") from error


def _open_files(settings: StorageSettings) -> Storage:
    from everbrook.storage.disk import OsDisk  # noqa: PLC0415
    from everbrook.storage.files.engine import FileStorage  # noqa: PLC0415

    durable = settings.mode is StorageMode.FILE_DURABLE
    return FileStorage(OsDisk(), settings.store_dir, durable=durable, salt=secrets.randbits(32))


def find_store(settings: Settings) -> None:
    """See that the store which is there, if any, is one that this version and these settings can open."""
    from everbrook.storage.disk import OsDisk  # noqa: PLC0415
    from everbrook.storage.manifest import FORMAT, MANIFEST, Manifest, open_manifest  # noqa: PLC0415

    mode, folder = settings.storage.mode, settings.storage.store_dir
    if mode.durable and (folder / MANIFEST).is_file():
        wanted = Manifest(FORMAT, folder.name, settings.storage.acid_shard_count if mode is StorageMode.ACID else 1)
        open_manifest(OsDisk(), folder, wanted)


def assemble(
    settings: Settings, storage: Storage, tuning: ServerTuning = DEFAULT_TUNING, clock: Clock | None = None
) -> Application:
    """Put an application together on the running loop."""
    engine = Engine(storage, asyncio.get_running_loop(), clock or Clock(), limits_of(settings), tuning=tuning.engine)
    proxies = Proxies(settings.auth.trusted_proxies, settings.auth.identity_header)
    holdings = Holdings(settings.limits, proxies)
    authenticator = Authenticator(settings.auth, proxies, tuning.auth) if settings.auth.configured else None
    gates = gates_of(settings, proxies, holdings, authenticator, tuning.auth)
    observer = observer_of(settings, proxies.client_address)
    return Application(engine, settings, gates, holdings, authenticator, observer, tuning)


def gates_of(
    settings: Settings,
    proxies: Proxies,
    holdings: Holdings,
    authenticator: Authenticator | None = None,
    tuning: AuthTuning = DEFAULT_TUNING.auth,
) -> list[Gate]:
    """Give the gates that the settings ask for: addresses before identities, which are known behind their own gate.

    What an identity may do comes last: who asks too often learns nothing else.
    """
    limits = settings.limits
    gates = [
        address_gate(limits, proxies.client_address),
        Authentication(authenticator) if authenticator else None,
        identity_gate(limits),
        holdings if limits.max_connections_per_identity else None,
        _authorization(settings, authenticator, tuning) if authenticator else None,
    ]
    return [gate for gate in gates if gate]


def _authorization(settings: Settings, authenticator: Authenticator, tuning: AuthTuning) -> Authorization:
    return Authorization(
        authenticator,
        settings.auth.public_read,
        public_metrics=settings.metrics.public,
        recheck_secs=tuning.recheck_secs,
    )


def limits_of(settings: Settings) -> Limits:
    """Give the limits that the settings and their storage mode mean."""
    mode = settings.storage.mode
    limits = settings.limits.in_mode(mode)
    return Limits(
        max_memory_bytes=limits.max_memory_bytes or UNLIMITED,
        max_stream_bytes=limits.max_stream_bytes or UNLIMITED,
        max_total_bytes=limits.max_total_bytes or UNLIMITED,
        max_bucket_bytes=limits.max_bucket_bytes or UNLIMITED,
        max_bucket_streams=limits.max_bucket_streams or UNLIMITED,
        max_producers_per_stream=limits.max_producers_per_stream,
        max_page_bytes=limits.max_page_bytes,
        # What is on a disk is kept as long as its stream.
        producer_idle_ms=None if mode.durable else PRODUCER_IDLE_MS,
    )
