"""From settings to a storage: each mode opens its own, and what can't be used is said in one line."""

import logging
from pathlib import Path

import pytest

from everbrook.engine import PRODUCER_IDLE_MS, UNLIMITED
from everbrook.server.assembly import find_store, limits_of, open_storage, storage_tuning
from everbrook.settings import Settings, StorageMode
from everbrook.storage import DurableStorage, MemoryStorage, StoreError
from tests.kit.server_thread import configured

MIB = 1024 * 1024


def settings_of(mode: StorageMode, folder: Path, **values: object) -> Settings:
    stored = {"storage__mode": mode, "storage__data_dir": str(folder), "storage__allow_unused_store": False}
    return configured(**stored | values)


def test_memory_mode_makes_no_folder(tmp_path: Path) -> None:
    storage = open_storage(settings_of(StorageMode.MEMORY, tmp_path / "data"))
    assert isinstance(storage, MemoryStorage)
    assert not (tmp_path / "data").exists()


def test_acid_mode_keeps_its_store_in_a_folder_of_the_data_folder(tmp_path: Path) -> None:
    storage = open_storage(settings_of(StorageMode.ACID, tmp_path / "data"))
    assert isinstance(storage, DurableStorage)
    storage.close()
    names = {path.name for path in (tmp_path / "data" / "acid").iterdir()}
    assert {"manifest.json", "journal", "base"} <= names


@pytest.mark.parametrize("mode", [StorageMode.FILE_FAST, StorageMode.FILE_DURABLE])
def test_the_file_modes_share_one_store(tmp_path: Path, mode: StorageMode) -> None:
    storage = open_storage(settings_of(mode, tmp_path))
    assert isinstance(storage, DurableStorage)
    assert ("not of this machine" in storage.promise) == (mode is StorageMode.FILE_FAST)
    storage.close()
    assert (tmp_path / "file" / "manifest.json").exists()


def test_a_second_server_on_a_data_folder_is_refused(tmp_path: Path) -> None:
    storage = open_storage(settings_of(StorageMode.ACID, tmp_path))
    with pytest.raises(StoreError, match="is in use"):
        open_storage(settings_of(StorageMode.ACID, tmp_path))
    storage.close()


@pytest.mark.parametrize("count, lines", [(1, 0), (16, 1)])
def test_a_number_of_shards_is_accepted_and_one_line_says_that_it_has_no_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, lines: int
) -> None:
    caplog.set_level(logging.INFO)
    open_storage(settings_of(StorageMode.ACID, tmp_path, storage__acid_shard_count=count)).close()
    assert sum("acid_shard_count has no effect" in record.message for record in caplog.records) == lines


def test_an_lmdb_file_that_is_none_is_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    open_storage(settings_of(StorageMode.ACID, tmp_path)).close()
    (tmp_path / "acid" / "base" / "data.mdb").write_bytes(b"nothing of the kind" * 1000)
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


KINDS = {StorageMode.ACID: "acid", StorageMode.FILE_FAST: "file", StorageMode.FILE_DURABLE: "file"}
OTHERS = [
    pytest.param(found, mode, id=f"{mode.value}-over-{found.value}")
    for found in KINDS
    for mode in StorageMode
    if KINDS.get(mode) != KINDS[found]
]


@pytest.mark.parametrize("found, mode", OTHERS)
def test_a_store_of_another_kind_is_refused_and_both_are_named(
    tmp_path: Path, found: StorageMode, mode: StorageMode
) -> None:
    open_storage(settings_of(found, tmp_path)).close()
    kept = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError) as refused:
        open_storage(settings_of(mode, tmp_path))
    told = str(refused.value)
    assert f"{tmp_path} holds a store of storage" in told
    assert found.value in told
    assert f"storage {mode.value} does not use" in told
    assert "--allow-unused-store" in told
    assert sorted(tmp_path.rglob("*")) == kept


@pytest.mark.parametrize("found, mode", OTHERS)
def test_a_store_of_another_kind_stays_unused_where_that_is_allowed(
    tmp_path: Path, found: StorageMode, mode: StorageMode
) -> None:
    open_storage(settings_of(found, tmp_path)).close()
    open_storage(settings_of(mode, tmp_path, storage__allow_unused_store=True)).close()
    open_storage(settings_of(found, tmp_path, storage__allow_unused_store=True)).close()


@pytest.mark.parametrize("first, second", [(StorageMode.FILE_FAST, StorageMode.FILE_DURABLE)])
def test_the_file_modes_open_each_others_store(tmp_path: Path, first: StorageMode, second: StorageMode) -> None:
    for mode in (first, second, first):
        open_storage(settings_of(mode, tmp_path)).close()


def test_folders_that_are_no_stores_hinder_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    open_storage(settings_of(StorageMode.ACID, tmp_path)).close()


def test_a_check_of_the_start_finds_a_store_of_another_kind(tmp_path: Path) -> None:
    open_storage(settings_of(StorageMode.ACID, tmp_path)).close()
    find_store(settings_of(StorageMode.ACID, tmp_path))
    with pytest.raises(StoreError, match="holds a store of storage acid"):
        find_store(settings_of(StorageMode.FILE_DURABLE, tmp_path))


def test_memory_that_is_allowed_is_shared_out_in_a_durable_mode() -> None:
    settings = settings_of(StorageMode.ACID, Path(), limits__max_memory_bytes=64 * MIB)
    assert limits_of(settings).max_loaded_bytes == 32 * MIB
    tuning = storage_tuning(settings.limits.max_memory_bytes)
    assert tuning.checkpoint_bytes * tuning.max_recent_checkpoints == 16 * MIB
