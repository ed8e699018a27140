"""From settings to a storage: each mode opens its own, and what can't be used is said in one line."""

from pathlib import Path

import pytest

from everbrook.engine import PRODUCER_IDLE_MS, UNLIMITED
from everbrook.server.assembly import limits_of, open_storage
from everbrook.settings import Settings, StorageMode
from everbrook.storage import AcidStorage, FileStorage, MemoryStorage, StoreError
from tests.server.running import configured


def settings_of(mode: StorageMode, folder: Path, **values: object) -> Settings:
    return configured(storage__mode=mode, storage__data_dir=str(folder), **values)


def test_memory_mode_makes_no_folder(tmp_path: Path) -> None:
    storage = open_storage(settings_of(StorageMode.MEMORY, tmp_path / "data"))
    assert isinstance(storage, MemoryStorage)
    assert not (tmp_path / "data").exists()


def test_acid_mode_keeps_its_store_in_a_folder_of_the_data_folder(tmp_path: Path) -> None:
    storage = open_storage(settings_of(StorageMode.ACID, tmp_path / "data", storage__acid_shard_count=2))
    assert isinstance(storage, AcidStorage)
    storage.close()
    names = {path.name for path in (tmp_path / "data" / "acid").iterdir()}
    assert {"manifest.json", "journal", "shard-000", "shard-001"} <= names


@pytest.mark.parametrize("mode", [StorageMode.FILE_FAST, StorageMode.FILE_DURABLE])
def test_the_file_modes_share_one_store(tmp_path: Path, mode: StorageMode) -> None:
    storage = open_storage(settings_of(mode, tmp_path))
    assert isinstance(storage, FileStorage)
    assert ("machine" in storage.promise) == (mode is StorageMode.FILE_DURABLE)
    storage.close()
    assert (tmp_path / "file" / "manifest.json").exists()


def test_a_second_server_on_a_data_folder_is_refused(tmp_path: Path) -> None:
    storage = open_storage(settings_of(StorageMode.ACID, tmp_path))
    with pytest.raises(StoreError, match="is in use"):
        open_storage(settings_of(StorageMode.ACID, tmp_path))
    storage.close()


def test_another_number_of_shards_is_refused_with_the_right_one(tmp_path: Path) -> None:
    open_storage(settings_of(StorageMode.ACID, tmp_path)).close()
    with pytest.raises(StoreError, match="set DS_STORAGE__ACID_SHARD_COUNT=1"):
        open_storage(settings_of(StorageMode.ACID, tmp_path, storage__acid_shard_count=2))


def test_an_lmdb_file_that_is_none_is_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    open_storage(settings_of(StorageMode.ACID, tmp_path)).close()
    (tmp_path / "acid" / "shard-000" / "data.mdb").write_bytes(b"nothing of the kind" * 1000)
    with pytest.raises(StoreError, match="can't be opened"):
        open_storage(settings_of(StorageMode.ACID, tmp_path))


def test_memory_mode_is_bounded_and_forgets_idle_producers() -> None:
    limits = limits_of(settings_of(StorageMode.MEMORY, Path()))
    assert (limits.max_memory_bytes, limits.max_stream_bytes) == (104_857_600, 10_485_760)
    assert limits.producer_idle_ms == PRODUCER_IDLE_MS


def test_a_durable_mode_is_not_bounded_and_forgets_no_producer() -> None:
    limits = limits_of(settings_of(StorageMode.ACID, Path()))
    assert (limits.max_memory_bytes, limits.max_stream_bytes) == (UNLIMITED, UNLIMITED)
    assert limits.producer_idle_ms is None


def test_a_limit_that_is_set_holds_in_a_durable_mode() -> None:
    limits = limits_of(settings_of(StorageMode.ACID, Path(), limits__max_stream_bytes=5))
    assert limits.max_stream_bytes == 5
