"""A data folder belongs to one server and to one kind of store."""

from pathlib import Path

import pytest

from everbrook.storage import AcidStorage, OsDisk, StoreError
from tests.storage.drafts import Draft
from tests.storage.files.opening import commit, contents, open_files


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    with pytest.raises(StoreError, match="in use"):
        open_files(tmp_path)
    storage.close()
    open_files(tmp_path).close()


def test_a_store_of_another_mode_is_refused_and_let_go(tmp_path: Path) -> None:
    AcidStorage(OsDisk(), tmp_path / "acid", shard_count=1, salt=7).close()
    for _ in range(2):
        with pytest.raises(StoreError, match="mode acid"):
            open_files(tmp_path / "acid")


def test_acid_refuses_a_store_of_files(tmp_path: Path) -> None:
    open_files(tmp_path).close()
    with pytest.raises(StoreError, match="mode file"):
        AcidStorage(OsDisk(), tmp_path, shard_count=1, salt=7)


def test_a_store_can_be_fast_and_durable_in_turn(tmp_path: Path) -> None:
    stream = Draft(b"a", 1)
    for durable in (False, True, False, True):
        storage = open_files(tmp_path, durable=durable)
        commit(storage, (stream.write(b"x"),))
        storage.close()
    storage = open_files(tmp_path)
    assert contents(storage, [b"a"])[b"a"][1] == b"xxxx"
    storage.close()


def test_the_modes_say_what_they_promise(tmp_path: Path) -> None:
    for durable, word in ((False, "process"), (True, "machine")):
        storage = open_files(tmp_path, durable=durable)
        assert word in storage.promise
        storage.close()
