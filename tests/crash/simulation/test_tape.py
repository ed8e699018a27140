"""The simulated crash: what is synced stays, what is not may go, and a recording is what happened."""

from pathlib import Path
from random import Random

import lmdb
import pytest

from everbrook.storage.lmdb_base import open_environment
from tests.crash.simulation.databases import LOCK, Unsynced, require_sync
from tests.crash.simulation.image import Image, photograph
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.modes import MODES
from tests.crash.simulation.operations import (
    Allocated,
    Committed,
    Created,
    Cut,
    FolderSynced,
    Operation,
    Removed,
    Renamed,
    Synced,
    SyncFailed,
    Wrote,
)
from tests.crash.simulation.promises import Promises
from tests.crash.simulation.recorder import RecordingDisk
from tests.crash.simulation.server import serve
from tests.crash.simulation.tape import DiskState, Tape
from tests.crash.simulation.workload import Workload
from tests.kit.fakes import START_MS

A, B, ROOT = Path("a"), Path("b"), Path()
TRIES = 200


def outcomes(*operations: Operation, base: Image | None = None) -> list[dict[Path, bytes]]:
    """Give the files that power failures leave after some operations."""
    tape = Tape(base, list(operations))
    images = [tape.fail_power(len(tape), Random(number)).base.files for number in range(TRIES)]
    return [image for number, image in enumerate(images) if image not in images[:number]]


def test_what_is_synced_with_its_name_stays() -> None:
    synced = (Created(A, 0), Wrote(0, 0, b"abc"), Synced(0), FolderSynced(ROOT))
    assert outcomes(*synced) == [{A: b"abc"}]


def test_a_name_that_is_not_synced_may_be_lost() -> None:
    assert sorted(map(len, outcomes(Created(A, 0), Wrote(0, 0, b"abc"), Synced(0)))) == [0, 1]


def contents(*operations: Operation, held: bytes = b"") -> set[bytes]:
    """Give what power failures leave of a file that held something and has its name for certain."""
    return {image[A] for image in outcomes(*operations, base=Image(files={A: held}))}


def test_a_write_that_is_not_synced_may_be_lost_kept_or_torn() -> None:
    found = contents(Wrote(0, 2, b"c" * 30), held=b"ab")
    assert {b"ab", b"ab" + b"c" * 14, b"ab" + b"c" * 30} <= found
    assert all(content.startswith(b"ab") for content in found)


def test_sectors_that_are_not_synced_may_be_lost_while_later_ones_are_kept() -> None:
    found = contents(Allocated(0, 64), Synced(0), Wrote(0, 0, b"x" * 64))
    assert any(content.startswith(bytes(16)) and content.endswith(b"x") for content in found)


def test_a_sector_that_is_lost_has_what_was_there_before() -> None:
    """A recycled file has what an earlier use left in it."""
    found = contents(Wrote(0, 0, b"x" * 64), held=b"old " * 16)
    assert any(content.startswith(b"x" * 16) and content.endswith(b"old ") for content in found)
    assert all(set(content) <= set(b"xold ") for content in found)


def test_a_sector_may_have_any_version_that_it_had_since_the_last_sync() -> None:
    assert contents(Wrote(0, 0, b"1"), Wrote(0, 0, b"2"), held=b"0") == {b"0", b"1", b"2"}


def test_a_synced_write_stays_and_no_other_does() -> None:
    writes = (Wrote(0, 0, b"x" * 4096), Wrote(0, 8192, b"y" * 4096, synced=True))
    found = contents(*writes, held=bytes(12288))
    assert {content[8192:] for content in found} == {b"y" * 4096}
    assert {content[:4096] for content in found} >= {bytes(4096), b"x" * 4096}


def test_what_is_written_over_a_synced_write_may_be_lost_again() -> None:
    assert contents(Wrote(0, 0, b"1", synced=True), Wrote(0, 0, b"2"), held=b"0") == {b"1", b"2"}


def test_what_a_failed_sync_has_forgotten_is_read_and_no_later_sync_writes_it() -> None:
    failed = (Wrote(0, 0, b"x" * 64), SyncFailed(0), Synced(0))
    assert contents(*failed, held=b"o" * 64) == {b"o" * 64}
    assert Tape(Image(files={A: b"o" * 64}), list(failed)).disk_after(3).everything().files == {A: b"x" * 64}


def test_what_was_forgotten_stays_when_it_is_written_again_and_synced() -> None:
    failed = (Wrote(0, 0, b"x" * 64), SyncFailed(0))
    assert contents(*failed, Wrote(0, 0, b"x" * 64, synced=True), held=b"o" * 64) == {b"x" * 64}
    assert contents(*failed, Wrote(0, 0, b"x" * 64), Synced(0), held=b"o" * 64) == {b"x" * 64}


def test_allocated_room_has_zeros_or_is_not_there() -> None:
    assert contents(Allocated(0, 4), held=b"ab") == {b"ab", b"ab\0\0"}


def test_a_synced_write_may_be_torn_if_the_power_fails_meanwhile() -> None:
    tape = Tape(Image(files={A: bytes(64)}), [Wrote(0, 0, b"x" * 64, synced=True)])
    found = {tape.fail_power(0, Random(number)).base.files[A] for number in range(TRIES)}
    assert {bytes(64), b"x" * 64} <= found
    assert len(found) > 4


def test_a_removal_that_is_not_synced_may_come_back() -> None:
    assert outcomes(Removed(A), base=Image(files={A: b"abc"})) in ([{}, {A: b"abc"}], [{A: b"abc"}, {}])


def test_a_renaming_happens_entirely_or_not_at_all() -> None:
    found = outcomes(Renamed(B, A, 1), base=Image(files={A: b"old", B: b"new"}))
    assert sorted(image[A] for image in found) == [b"new", b"old"]
    assert all((B in image) == (image[A] == b"old") for image in found)


def test_a_cut_that_is_not_synced_may_be_undone() -> None:
    assert contents(Cut(0, 1), held=b"abc") == {b"a", b"abc"}


def test_a_commit_is_done_or_not_done() -> None:
    assert outcomes(Committed(0, b"new"), base=Image(files={A: b"old"})) == [{A: b"new"}]
    found = outcomes(Committed(0, b"new", synced=False), base=Image(files={A: b"old"}))
    assert sorted(image[A] for image in found) == [b"new", b"old"]


def test_a_killed_process_leaves_everything_and_nothing_of_it_is_safer_than_before() -> None:
    tape = Tape(None, [Created(A, 0), Wrote(0, 0, b"abc"), Synced(0)]).kill(3, Random(0))
    assert tape.disk_after(len(tape)).everything().files == {A: b"abc"}
    assert any(not tape.fail_power(3, Random(number)).base.files for number in range(TRIES))


@pytest.mark.parametrize("mode", MODES)
def test_a_recording_replays_to_what_is_in_the_file_system(mode: str) -> None:
    machine, tape = Machine(MODES[mode], 0), Tape()
    with machine.running(tape) as storage:
        serve(machine, storage, Promises({}), Workload(Random(1), START_MS), Random(2))
        machine.disk.sync_folder(machine.disk.root)
        found = photograph(machine.disk.root, frozenset({LOCK, "lock"}))
    replayed = tape.disk_after(len(tape)).everything()
    assert replayed.files == found.files
    assert set(replayed.folders) == set(found.folders)


@pytest.mark.parametrize("options", [{"sync": False}, {"metasync": False}, {"writemap": True, "map_async": True}])
def test_an_environment_that_does_not_sync_is_refused(tmp_path: Path, options: dict[str, bool]) -> None:
    with lmdb.open(str(tmp_path), **options) as environment, pytest.raises(Unsynced):
        require_sync(environment)


def test_the_environment_of_a_store_syncs(tmp_path: Path) -> None:
    with open_environment(tmp_path) as environment:
        require_sync(environment)


def test_a_folder_made_behind_the_recorders_back_is_not_safe(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path, Tape(), DiskState(Image()), Image())
    (tmp_path / "made").mkdir()
    file = disk.create(tmp_path / "made" / "a")
    file.sync()
    disk.sync_folder(tmp_path / "made")
    disk.abandon()
    assert any(not disk.tape.fail_power(len(disk.tape), Random(number)).base.folders for number in range(TRIES))
