"""A backup has its name only when every byte of it is on the disk, and so has a data folder that is restored."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest
from msgspec import Struct

from everbrook.storage import FILE_DURABLE, FILE_FAST, BackupError, DurableStorage, OsDisk
from everbrook.storage.backups.backup import DATA, FORMAT, LIST, MANIFEST, Backup, Manifest
from everbrook.storage.backups.destination import LATEST, PARTIAL, Destination
from everbrook.storage.backups.file_system import FileSystem, find_syncfs, open_file_system
from everbrook.storage.backups.restore import restore
from everbrook.storage.backups.store_copy import PinSource, StoreCopy
from everbrook.storage.pin import StillStore
from tests.kit.drafts import Draft
from tests.unit.storage.engines import SMALL, open_durable
from tests.unit.storage.pinning import write_blob


class Call(Struct, frozen=True):
    """A system call: what it was, of which path, and which files and folders were there."""

    what: str
    path: Path
    there: frozenset[Path]


class Recorder:
    """Writes system calls down instead of syncing. `whole`: there is one that syncs a whole file system."""

    def __init__(self, root: Path, *, whole: bool) -> None:
        self._root = root
        self._whole = whole
        self.calls: list[Call] = []

    def open(self, folder: Path) -> FileSystem:
        return FileSystem(
            folder, sync_all=self._sync_all if self._whole else None, sync=self._sync, rename=self._rename
        )

    def _note(self, what: str, path: Path) -> None:
        self.calls.append(Call(what, path, frozenset(self._root.rglob("*"))))

    def _sync(self, descriptor: int) -> None:
        self._note("sync", Path(f"/proc/self/fd/{descriptor}").readlink())

    def _sync_all(self, descriptor: int) -> int:
        self._note("sync all", Path(f"/proc/self/fd/{descriptor}").readlink())
        return 0

    def _rename(self, source: Path, target: Path) -> None:
        source.replace(target)
        self._note("rename", target)

    def place(self, what: str, path: Path) -> int:
        """Say when a call came."""
        return next(place for place, call in enumerate(self.calls) if (call.what, call.path) == (what, path))

    def unsynced(self, before: int, within: Path) -> set[Path]:
        """Give the files and folders below one that were not synced before a call, with all that is in them by then."""
        wanted = {path for path in self.calls[before - 1].there if path.is_relative_to(within)} | {within}
        synced: set[Path] = set()
        for call in self.calls[:before]:
            if call.what == "sync all":
                synced |= call.there
            elif call.what == "sync" and {path for path in wanted if path.parent == call.path} <= call.there:
                # A small file is synced before it has its name.
                synced.add(call.path.with_name(call.path.name.removesuffix(".new")))
        return wanted - synced


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A stopped store with some of everything."""
    storage = open_durable(tmp_path, FILE_DURABLE, **SMALL)
    group = [(Draft(b"a", 1).write(bytes(1000)),)]
    storage.persist(group)
    storage.apply(group)
    write_blob(storage.blobs, 1, 2, b"snapshot")
    storage.close()
    return tmp_path / "file"


@pytest.fixture(params=[True, False], ids=["syncfs", "each file"])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Recorder:
    return Recorder(tmp_path.resolve(), whole=request.param)


@pytest.fixture
def still(store: Path) -> Iterator[StillStore]:
    still = StillStore(store)
    yield still
    still.release()


def back_up(still: StillStore, dest: Path, opening: Callable[[Path], FileSystem]) -> Path:
    with closing(Destination(dest, opening)) as destination:
        previous = destination.previous()
        target = destination.partial / DATA / still.store
        target.mkdir(parents=True)
        copy = StoreCopy(PinSource(still), target, previous, lambda _size: None, Event())
        copy.run()
        digest = sha256(copy.listed()).hexdigest()
        size = copy.done_bytes
        manifest = Manifest(FORMAT, still.store, 0, "here", copy.folders, len(copy.entries), size, size, digest)
        return destination.publish(copy, manifest)


@pytest.mark.parametrize("times", [1, 2])
def test_a_backup_is_on_the_disk_before_it_has_its_name(
    still: StillStore, tmp_path: Path, recorder: Recorder, times: int
) -> None:
    for _ in range(times - 1):
        back_up(still, tmp_path / "dest", open_file_system)
    path = back_up(still, tmp_path / "dest", recorder.open)
    partial = tmp_path / "dest" / PARTIAL
    manifest = recorder.place("rename", partial / MANIFEST)
    named = recorder.place("rename", path)
    assert any(found.suffix == ".blob" for found in recorder.calls[manifest].there)
    assert recorder.unsynced(manifest - 1, partial) == set()
    assert recorder.place("sync", partial / f"{LIST}.new") < recorder.place("rename", partial / LIST)
    assert recorder.place("sync", partial / f"{MANIFEST}.new") < manifest
    assert manifest < max(place for place, call in enumerate(recorder.calls[:named]) if call.path == partial)
    assert [call.path.name for call in recorder.calls[named + 1 :]] == ["dest", LATEST, "dest"]


def test_a_restored_folder_is_on_the_disk_before_it_has_its_name(
    still: StillStore, tmp_path: Path, recorder: Recorder
) -> None:
    backup = Backup(back_up(still, tmp_path / "dest", open_file_system))
    recorder.calls.clear()
    restore(backup, tmp_path / "restored", lambda _size: None, epoch=5, open_file_system=recorder.open)
    named = recorder.place("rename", tmp_path / "restored")
    assert recorder.unsynced(named, tmp_path / ".restored.restoring") == set()
    assert [(call.what, call.path) for call in recorder.calls[named + 1 :]] == [("sync", tmp_path)]


def test_a_restored_store_has_its_epoch_and_nothing_to_remark(still: StillStore, tmp_path: Path) -> None:
    backup = Backup(back_up(still, tmp_path / "dest", open_file_system))
    restore(backup, tmp_path / "restored", lambda _size: None, epoch=5)
    for _ in range(2):
        with closing(open_durable(tmp_path / "restored", FILE_DURABLE)) as storage:
            assert (storage.epoch, storage.remarks, storage.damages) == (5, [], [])
            assert storage.read(1, 0, 1000) == bytes(1000)


def test_a_restored_store_that_was_not_synced_has_lost_nothing_with_the_machine(tmp_path: Path) -> None:
    with closing(DurableStorage(OsDisk(), tmp_path / "file", FILE_FAST, salt=7, boot="one")):
        pass
    still = StillStore(tmp_path / "file")
    backup = Backup(back_up(still, tmp_path / "dest", open_file_system))
    still.release()
    restore(backup, tmp_path / "restored", lambda _size: None, epoch=5)
    with closing(DurableStorage(OsDisk(), tmp_path / "restored" / "file", FILE_FAST, salt=7, boot="two")) as storage:
        assert storage.remarks == []


def test_an_error_of_the_disk_leaves_no_backup(still: StillStore, tmp_path: Path) -> None:
    def fail(_descriptor: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    def broken(folder: Path) -> FileSystem:
        return FileSystem(folder, sync_all=fail)

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        back_up(still, tmp_path / "dest", broken)
    assert [path.name for path in (tmp_path / "dest").iterdir() if not path.name.startswith(".")] == []


def test_the_file_system_is_synced_by_the_call_that_the_system_has(tmp_path: Path) -> None:
    syncfs = find_syncfs()
    assert syncfs is not None
    assert syncfs(-1) == -1
    with closing(open_file_system(tmp_path)) as file_system:
        file_system.sync([], [])


def test_what_is_not_part_of_a_store_is_not_in_its_backup(store: Path, still: StillStore, tmp_path: Path) -> None:
    for name in ("journal/spare.log", "base/lock.mdb", "lost+found/x.torn", "manifest.json.new", "streams/aa/x"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(b"not part of it")
    names = {entry.name for entry in Backup(back_up(still, tmp_path / "dest", open_file_system)).entries()}
    left = {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()} - names
    others = {"journal/spare.log", "base/lock.mdb", "lost+found/x.torn", "manifest.json.new", "streams/aa/x", "lock"}
    assert left == others
    assert {"manifest.json", "base/data.mdb"} < names


def test_a_store_whose_manifest_can_not_be_read_is_not_backed_up(store: Path) -> None:
    (store / "manifest.json").write_bytes(b"{")
    for _ in range(2):
        with pytest.raises(Exception, match="start a server on the store"):
            StillStore(store)


def test_a_damaged_copy_is_not_restored(still: StillStore, tmp_path: Path) -> None:
    backup = Backup(back_up(still, tmp_path / "dest", open_file_system))
    path = backup.store / "base" / "data.mdb"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BackupError, match="is damaged"):
        restore(backup, tmp_path / "restored", lambda _size: None, epoch=5)
