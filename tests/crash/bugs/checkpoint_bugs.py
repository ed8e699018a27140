"""Deliberate bugs of checkpoints: the order of segments, transaction and journal, and the number that is applied."""

from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.checkpointer import Checkpointer, Removals
from everbrook.storage.damage import DamageMark
from everbrook.storage.disk import Disk
from everbrook.storage.journal_scan import Needed, Recovered, read_journal
from everbrook.storage.recent import Recent
from tests.crash.bugs.bug import ALL, FILES, Bug


def _commit_before_the_segments_are_synced(patch: pytest.MonkeyPatch) -> None:
    def commit(checkpoint: Checkpoint) -> None:
        checkpoint._transaction.commit()
        checkpoint._writer.sync()

    patch.setattr(Checkpoint, "commit", commit)


def _make_otherwise(
    patch: pytest.MonkeyPatch, number_of: Callable[[Checkpointer, int], int], *, trim_first: bool = False
) -> None:
    really_make = Checkpointer._make

    def make(
        checkpointer: Checkpointer, recent: Recent, number: int, marks: dict[int, DamageMark], last_incarnation: int
    ) -> Removals:
        really_commit, number = Checkpoint.commit, number_of(checkpointer, number)

        def commit(checkpoint: Checkpoint) -> None:
            checkpointer._journal.trim(number)
            really_commit(checkpoint)

        with pytest.MonkeyPatch.context() as within:
            if trim_first:
                within.setattr(Checkpoint, "commit", commit)
            return really_make(checkpointer, recent, number, marks, last_incarnation)

    patch.setattr(Checkpointer, "_make", make)


def _trim_the_journal_first(patch: pytest.MonkeyPatch) -> None:
    _make_otherwise(patch, lambda _checkpointer, number: number, trim_first=True)


def _take_later_changes_for_applied(patch: pytest.MonkeyPatch) -> None:
    """What was written since the checkpoint began counts as applied too."""
    _make_otherwise(patch, lambda checkpointer, _number: checkpointer._journal.last)


def _forget_the_applied_number(patch: pytest.MonkeyPatch) -> None:
    really_set = Checkpoint.set_applied
    patch.setattr(Checkpoint, "set_applied", lambda checkpoint, _number, last: really_set(checkpoint, 0, last))


def _replay_what_the_base_has(patch: pytest.MonkeyPatch) -> None:
    def read(disk: Disk, folder: Path, salt: int, _applied: int, needed: Needed) -> Recovered:
        return read_journal(disk, folder, salt, 0, needed)

    patch.setattr("everbrook.storage.durable.read_journal", read)


CHECKPOINT_BUGS = {
    "commit before the segments are synced": Bug(FILES, _commit_before_the_segments_are_synced, seed=2002),
    "trim the journal before the checkpoint commits": Bug(ALL, _trim_the_journal_first, seed=2005),
    "take later changes for applied": Bug(ALL, _take_later_changes_for_applied),
    "forget the applied number": Bug(ALL, _forget_the_applied_number),
    "replay what the base has": Bug(ALL, _replay_what_the_base_has),
}
