"""Storage: stores each change atomically, and reads bytes back. Protocol rules do not belong here."""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.storage.api import (
        Pin as Pin,
        Record as Record,
        Storage as Storage,
        StorageFull as StorageFull,
        floor_of as floor_of,
    )
    from everbrook.storage.backups.backup import (
        BackupError as BackupError,
        find_backups as find_backups,
        format_name as format_name,
        next_name as next_name,
    )
    from everbrook.storage.backups.file_copy import FileCopy as FileCopy
    from everbrook.storage.backups.pieces import (
        Asked as Asked,
        Piece as Piece,
        State as State,
        parse_pieces as parse_pieces,
    )
    from everbrook.storage.check import check_store as check_store
    from everbrook.storage.damage import Damage as Damage, Damaged as Damaged, DamageMark as DamageMark
    from everbrook.storage.disk import OsDisk as OsDisk
    from everbrook.storage.durable import (
        ACID as ACID,
        FILE_DURABLE as FILE_DURABLE,
        FILE_FAST as FILE_FAST,
        DurableMode as DurableMode,
        DurableStorage as DurableStorage,
    )
    from everbrook.storage.journal import JournalTuning as JournalTuning
    from everbrook.storage.manifest import StoreError as StoreError
    from everbrook.storage.memory import (
        PRODUCER_BYTES as PRODUCER_BYTES,
        STREAM_BYTES as STREAM_BYTES,
        MemoryBlobReader as MemoryBlobReader,
        MemoryBlobs as MemoryBlobs,
        MemoryDraft as MemoryDraft,
        MemoryStorage as MemoryStorage,
        producer_bytes as producer_bytes,
        producers_bytes as producers_bytes,
    )
    from everbrook.storage.message_index import BLOCK_BYTES as BLOCK_BYTES, MessageIndex as MessageIndex
    from everbrook.storage.tuning import StorageTuning as StorageTuning

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".api": "Pin Record Storage StorageFull floor_of",
        ".backups.backup": "BackupError find_backups format_name next_name",
        ".backups.file_copy": "FileCopy",
        ".backups.pieces": "Asked Piece State parse_pieces",
        ".check": "check_store",
        ".damage": "Damage DamageMark Damaged",
        ".disk": "OsDisk",
        ".durable": "ACID FILE_DURABLE FILE_FAST DurableMode DurableStorage",
        ".message_index": "BLOCK_BYTES MessageIndex",
        ".journal": "JournalTuning",
        ".manifest": "StoreError",
        ".memory": "MemoryBlobReader MemoryBlobs MemoryDraft MemoryStorage PRODUCER_BYTES STREAM_BYTES producer_bytes "
        "producers_bytes",
        ".tuning": "StorageTuning",
    },
)
