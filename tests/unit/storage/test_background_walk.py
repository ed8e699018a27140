"""A store that was closed is opened at once, and its tree is walked beside it: damaged pages are named all the same."""

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import ACID, FILE_FAST, DurableMode, DurableStorage, OsDisk, StoreError
from everbrook.storage.check import BackgroundWalk, WalkedOpening
from everbrook.storage.check.base_walk import Bounds, TreeWalk
from everbrook.storage.lmdb_base import open_environment
from everbrook.storage.lmdb_pages import BRANCH, PAGE
from tests.kit.damage import hide_rows
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, killed

PAGE_BYTES = 4096
GROWN, OUT_OF_ORDER, GIVEN_UP = 200, 11, 12
BOOT = "one run of the machine"


def make_store(folder: Path, mode: DurableMode = ACID) -> Path:
    """Make a closed store with ten streams."""
    storage = HeldStorage(folder, mode=mode)
    for number in range(10):
        commit(storage, (Draft(b"name-%d" % number, number + 1).write(b"x" * 100),))
    storage.close()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path)


class Walked:
    """A storage that was opened as a server does, and its walk."""

    def __init__(self, folder: Path, mode: DurableMode = ACID, boot: str = BOOT) -> None:
        self.folder = folder
        self.walks: list[BackgroundWalk] = []
        self._opening = WalkedOpening(boot)
        self.storage = DurableStorage(
            OsDisk(), folder, mode, salt=7, boot=boot, open_environment=self._opening.open, begin_walk=self._begin
        )

    def _begin(self, base: Path, env: lmdb.Environment) -> BackgroundWalk | None:
        walk = self._opening.walk(base, env)
        self.walks += [walk] if walk else []
        return walk

    def wait(self) -> None:
        """Return when the walk has ended, which nobody has noticed then."""
        (walk,) = self.walks
        assert walk.process
        os.waitid(os.P_PID, walk.process.pid, os.WEXITED | os.WNOWAIT)

    def kill(self, copy: Path) -> Path:
        """Give a copy of the store as it would be after the end of the process."""
        shutil.copytree(self.folder, copy)
        self.storage.close()
        return copy


@pytest.mark.parametrize("mode", [ACID, FILE_FAST], ids=["acid", "file-fast"])
def test_a_page_that_hides_names_is_found_after_a_close(tmp_path: Path, mode: DurableMode) -> None:
    hide_rows(make_store(tmp_path, mode), b"names")
    walked = Walked(tmp_path, mode)
    assert walked.storage.load(b"name-1") is None
    walked.wait()
    assert "base/data.mdb is damaged: its rows are not in order" in str(walked.storage.verify())
    assert walked.storage.verify()
    walked.storage.close()


@pytest.mark.parametrize("bit", [0, 6], ids=["up", "down"])
def test_a_branch_that_leads_to_the_wrong_page_is_found(tmp_path: Path, bit: int) -> None:
    """The rows are in order. LMDB looks for some of them in a page that does not have them."""
    storage, names = HeldStorage(tmp_path), [b"name-%03dm" % number for number in range(300)]
    commit(storage, *((Draft(name, number + 1).write(b"x"),) for number, name in enumerate(names)))
    storage.close()
    path = tmp_path / "base" / "data.mdb"
    data = bytearray(path.read_bytes())
    for start in range(2 * PAGE_BYTES, len(data), PAGE_BYTES):
        page = bytes(data[start : start + PAGE_BYTES])
        if PAGE.unpack_from(page)[2] == BRANCH and (place := page.find(b"name-")) >= 0:
            data[start + place + len(b"name-0")] ^= 1 << bit
    path.write_bytes(data)
    walked = Walked(tmp_path)
    with pytest.raises(StreamDamaged, match="a row near it is damaged"):
        list(map(walked.storage.load, names))
    walked.wait()
    assert "its rows are not in order" in str(walked.storage.verify())
    walked.storage.close()


def test_a_store_whose_tree_was_found_damaged_is_not_opened_again(store: Path) -> None:
    """Nothing is written to it when it is closed, so it is one that was not closed."""
    hide_rows(store, b"names")
    walked = Walked(store)
    walked.wait()
    assert walked.storage.verify()
    walked.storage.close()
    with pytest.raises(StoreError, match=r"data\.mdb is damaged: its rows are not in order"):
        Walked(store)


def test_nothing_is_found_in_a_whole_tree_that_is_written_to(store: Path) -> None:
    walked = Walked(store)
    for number in range(100, 120):
        commit(walked.storage, (Draft(b"new-%d" % number, number).write(b"x" * 100),))
    walked.wait()
    assert walked.storage.verify() is None
    walked.storage.close()
    walked = Walked(store)
    walked.wait()
    assert walked.storage.verify() is None
    walked.storage.close()


def test_a_close_ends_the_walk(store: Path) -> None:
    walked = Walked(store)
    process = walked.walks[0].process
    assert process
    walked.storage.close()
    assert process.returncode is not None


def walked_and_killed(folder: Path) -> Path:
    """Make a store whose tree was found whole, and that was not closed."""
    walked = Walked(make_store(folder / "store"))
    walked.wait()
    assert walked.storage.verify() is None
    return walked.kill(folder / "killed")


def test_a_whole_tree_is_walked_beside_the_next_server_though_it_was_killed(tmp_path: Path) -> None:
    walked = Walked(walked_and_killed(tmp_path))
    assert walked.walks
    walked.wait()
    assert walked.storage.verify() is None
    walked.storage.close()


def test_pages_damaged_since_a_walk_are_found_after_a_kill(tmp_path: Path) -> None:
    killed = walked_and_killed(tmp_path)
    hide_rows(killed, b"names")
    walked = Walked(killed)
    walked.wait()
    assert "its rows are not in order" in str(walked.storage.verify())
    walked.storage.close()
    with pytest.raises(StoreError, match="its rows are not in order"):
        Walked(killed)


def test_a_server_killed_before_its_walk_ended_has_the_next_walk_first(tmp_path: Path) -> None:
    walked = Walked(walked_and_killed(tmp_path))
    killed = walked.kill(tmp_path / "again")
    hide_rows(killed, b"names")
    with pytest.raises(StoreError, match="its rows are not in order"):
        Walked(killed)


@pytest.mark.parametrize("boot", ["another", ""])
def test_a_walk_of_another_boot_proves_nothing(tmp_path: Path, boot: str) -> None:
    killed = walked_and_killed(tmp_path)
    hide_rows(killed, b"names")
    with pytest.raises(StoreError, match="its rows are not in order"):
        Walked(killed, boot=boot)


def test_a_system_without_a_name_for_its_boot_walks_first(tmp_path: Path) -> None:
    walked = Walked(make_store(tmp_path / "store"), boot="")
    walked.wait()
    assert walked.storage.verify() is None
    killed = walked.kill(tmp_path / "killed")
    hide_rows(killed, b"names")
    with pytest.raises(StoreError, match="its rows are not in order"):
        Walked(killed, boot="")


def test_a_tree_walked_before_it_was_opened_is_not_walked_again(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path / "store")
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    for folder in (copy, tmp_path / "new"):
        walked = Walked(folder)
        assert not walked.walks
        walked.storage.close()


def test_a_walk_that_is_killed_proves_nothing(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    walked = Walked(store)
    process = walked.walks[0].process
    assert process
    process.kill()
    walked.wait()
    assert walked.storage.verify() is None
    assert walked.storage.verify() is None
    assert [record.levelname for record in caplog.records if "was not walked" in record.message] == ["WARNING"]
    walked.storage.close()


def test_a_walk_that_is_killed_keeps_no_pages(store: Path) -> None:
    with open_environment(store / "base") as environment:
        walk = BackgroundWalk(store / "base", environment)
        walk.stop()
        reading = f"import lmdb; env = lmdb.open({str(store / 'base')!r}, readonly=True); reader = env.begin(); input()"
        walk.process = subprocess.Popen([sys.executable, "-c", reading], stdin=subprocess.PIPE)
        while str(walk.process.pid) not in environment.readers():
            time.sleep(0.01)
        walk.process.kill()
        walk.process.communicate()
        assert walk.problem() is None
        assert "no active readers" in environment.readers()


def test_a_walk_that_cant_begin_is_told(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("sys.executable", str(store / "nothing"))
    walked = Walked(store)
    assert walked.storage.verify() is None
    assert "was not walked" in caplog.text
    walked.storage.close()


@pytest.fixture
def held(store: Path) -> Iterator[HeldStorage]:
    storage = HeldStorage(store)
    yield storage
    storage.close()


def grow(storage: HeldStorage) -> None:
    """Have the base grow by some pages in a transaction of its own."""
    assert storage.environment
    with storage.environment.begin(write=True) as transaction:
        row = storage.environment.open_db(b"chunks", txn=transaction, create=False)
        transaction.put(b"grown", bytes(GROWN * PAGE_BYTES), db=row)
        transaction.delete(b"grown", db=row)
        transaction.put(b"meta", bytes(GROWN * PAGE_BYTES), db=row)


def test_a_walk_keeps_no_more_pages_than_it_may(held: HeldStorage) -> None:
    assert held.environment
    few = Bounds(growth_bytes=10 * PAGE_BYTES, rows=1, pause_secs=0)

    def wanted() -> bool:
        grow(held)
        return True

    assert TreeWalk(held.environment, few, wanted).run() == GIVEN_UP
    assert TreeWalk(held.environment, few, lambda: True).run() == 0


def test_a_walk_that_nobody_waits_for_ends(held: HeldStorage) -> None:
    assert held.environment
    with pytest.raises(SystemExit):
        TreeWalk(held.environment, Bounds(rows=1), lambda: False).run()
