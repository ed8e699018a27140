"""The checkpointer: takes recent changes into the base in the background, and frees the space of removed bytes.

A failed checkpoint is tried again. Until one succeeds, the journal and the memory keep all changes since the last
checkpoint. Back-pressure bounds their size: beyond the bound, changes wait for the checkpoint, and are refused while
checkpoints fail.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from threading import Lock

from everbrook.storage.api import Checkpoints, StorageFull
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.damage import DamageMark
from everbrook.storage.hold import Hold
from everbrook.storage.journal import Journal
from everbrook.storage.journal_scan import Needed
from everbrook.storage.lmdb_base import LMDB_ERRORS, LmdbBase
from everbrook.storage.merged_view import MergedView
from everbrook.storage.recent import Recent
from everbrook.storage.segments import parse_segment_name, segment_path
from everbrook.storage.tuning import StorageTuning

logger = logging.getLogger(__name__)


class Pace:
    """Makes a checkpoint pause for a part of its time, unless it is urgent.

    While it works, the event loop and the commit thread wait for the interpreter's lock several times for each append.
    """

    def __init__(
        self,
        tuning: StorageTuning,
        hurries: Callable[[], bool],
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._work_secs = tuning.work_secs
        self._max_rest_secs = tuning.max_rest_secs
        self._rest_ratio = tuning.rest_ratio
        self._hurries = hurries
        self._clock = clock
        self._sleep = sleep
        self._since = clock()

    def rest(self) -> None:
        """Pause if the last pause was long enough ago."""
        worked_secs = self._clock() - self._since
        if worked_secs >= self._work_secs:
            if not self._hurries():
                self._sleep(min(worked_secs * self._rest_ratio, self._max_rest_secs))
            self._since = self._clock()


Removals = list[tuple[int, int]]
"""Segments, as the incarnations of their streams and their first offsets."""


class Checkpointer:
    """Makes checkpoints, one at a time. Its methods are called by the thread that owns the streams."""

    def __init__(
        self, base: LmdbBase, journal: Journal, view: MergedView, hold: Hold, executor: Executor, tuning: StorageTuning
    ) -> None:
        self._base = base
        self._journal = journal
        self._view = view
        self._hold = hold
        self._executor = executor
        self._tuning = tuning
        self._under_way: Future[Removals] | None = None
        self._retry_lock = Lock()
        self._number = 0
        self._marks: dict[int, DamageMark] = {}
        self._retry_at_bytes = 0
        self._discarding: Future[None] | None = None
        self._removed: Removals = []
        self._closing = False
        self.stats = Checkpoints()

    def remove_leftovers(self, written: set[int] | None) -> None:
        """Remove the segments that a crash has left: those that were to be removed, and those without a row.

        A checkpoint that a crash interrupted may have begun segments of the streams whose bytes are in the journal.
        These streams are `written`; None means that it may be any stream.
        """
        self._remove(self._base.removals())
        if self._base.segments.used and written != set():
            # In the background, because it lists folders. The executor runs it before the first checkpoint, whose new
            # segments must not be taken for leftovers.
            last_incarnation = self._base.state().last_incarnation if written is None else 0
            self._executor.submit(self._remove_begun, written, last_incarnation)

    def _remove_begun(self, written: set[int] | None, last_incarnation: int) -> None:
        """Remove the segments that are newer than the base. One that may be older stays, for `everbrook check`."""
        segments = self._base.segments
        for incarnation, segment in list(segments.files(written)):
            marked = incarnation in self._view.marks
            if not marked and self._base.lacks_segment(incarnation, segment, last_incarnation):
                self._remove_file(segment_path(segments.folder, incarnation, segment), later=False)

    def follow(self, applied: int) -> None:
        """End a checkpoint that is done, and begin one if the journal is large enough.

        `applied` is the number of the last change in memory. The journal may have the next group already.
        """
        if self._under_way:
            self._end()
        if self._view.checkpointing is None and self._journal.size >= self._tuning.checkpoint_bytes:
            # From here on changes go to the new layer, and the next group to a new file. The checkpoint covers the
            # changes up to `applied`. The old file may have later ones too; then `trim` keeps it.
            self._view.set_aside()
            self._number, self._marks = applied, dict(self._view.marks)
            self._journal.roll()
            self._retry_at_bytes = 0
            self._submit()

    def wait_for_room(self) -> None:
        """Wait for the checkpoint under way if the journal is too large: back-pressure. Called by the commit thread."""
        if self._journal.pending_bytes < self._tuning.checkpoint_bytes * self._tuning.max_recent_checkpoints:
            return
        under_way = self._under_way
        if under_way and (error := under_way.exception()):
            # `follow` runs only after a change, and changes are refused now, so the retry must start here.
            self._retry(under_way)
            raise StorageFull(f"checkpoints fail, and no more changes can be held in memory: {error}")

    def _hurries(self) -> bool:
        """Return whether a checkpoint must not pause: the server stops, or the next checkpoint is due already."""
        return self._closing or self._journal.size >= self._tuning.checkpoint_bytes

    def _retry(self, failed: Future[Removals]) -> None:
        """Try a failed checkpoint again. Two threads may call this at once; the lock lets one of them submit it."""
        with self._retry_lock:
            if self._under_way is failed:
                self._submit()

    def _submit(self) -> None:
        aside = self._view.checkpointing
        if aside is not None:
            # Also the marks of streams that were dropped since: they are still in the base, and so is their damage.
            marks, last_incarnation = self._view.marks | self._marks, self._view.last_incarnation
            self._under_way = self._executor.submit(self._make, aside, self._number, marks, last_incarnation)

    def _make(self, recent: Recent, number: int, marks: dict[int, DamageMark], last_incarnation: int) -> Removals:
        """Take changes up to `number` into the base, then trim the journal. Returns the segments without rows."""
        began = time.perf_counter()
        try:
            # Begin the next file first: only then the old one has ended, and `trim` can remove it.
            self._journal.begin()
            with Checkpoint(self._base, self._tuning, Pace(self._tuning, self._hurries).rest) as checkpoint:
                checkpoint.take(recent, marks)
                checkpoint.set_applied(number, last_incarnation)
                checkpoint.set_needed(self._journal.needed_after(number))
                checkpoint.removed(self._durable_removals())
                checkpoint.commit()
            self._removed = []
        except BaseException:
            self.stats.note(time.perf_counter() - began, failed=True)
            raise
        try:
            # Not in the `try` above: the base has the changes now, and an error here must not repeat the checkpoint.
            self._journal.trim(number)
        except OSError as error:
            logger.warning("the journal could not be trimmed; the next checkpoint tries again: %s", error)
        self._remove(checkpoint.removals)
        took_secs = time.perf_counter() - began
        self.stats.note(took_secs)
        logger.debug("a checkpoint took changes up to %d into the base, in %.3f s", number, took_secs)
        return checkpoint.removals

    def _remove(self, segments: Removals) -> None:
        """Remove the files of segments without rows.

        The next checkpoint deletes the `removals` rows of those that are removed. The next start tries the others.
        """
        for incarnation, segment in segments:
            if self._remove_file(segment_path(self._base.segments.folder, incarnation, segment)):
                self._removed.append((incarnation, segment))

    def _durable_removals(self) -> Removals:
        """Return the removed segments once their removal is durable.

        Only then their `removals` rows may go: a power failure could bring a file back, and no row would name it.
        """
        self._base.segments.sync_folders(self._removed)
        return self._removed

    def _remove_file(self, path: Path, *, later: bool = True) -> bool:
        """Remove a file, unless a pin needs it. Returns whether it is removed."""
        try:
            return self._hold.remove(path, later=later)
        except FileNotFoundError:
            return True
        except OSError as error:
            logger.warning("%s could not be removed; the next start tries again: %s", path, error)
            return False

    def _end(self, *, retry: bool = True) -> None:
        under_way = self._under_way
        if under_way is None or not under_way.done():
            return
        error = under_way.exception()
        if error is None:
            for incarnation, segment in under_way.result():
                self._base.segments.forget(incarnation, segment)
            self._under_way = self._view.checkpointing = None
        elif retry and self._journal.size >= self._retry_at_bytes:
            logger.error("a checkpoint failed and will be tried again: %s", error)
            self._retry_at_bytes = self._journal.size + self._tuning.checkpoint_bytes
            self._retry(under_way)

    # Reclaim

    def discard(self, incarnation: int) -> None:
        """Discard the bytes before a stream's floor: in memory now, in the base with a later checkpoint."""
        floor = self._view.floor(incarnation)
        if floor:
            recent = self._view.recent
            recent.discard(incarnation, floor, self._view.discardable_bytes(incarnation, floor))
            if recent.discardable_bytes >= self._tuning.checkpoint_bytes:
                recent.discardable_bytes = 0
                # The executor runs it after the checkpoint that is under way. A queued task covers later floors too.
                if self._discarding is None or self._discarding.running() or self._discarding.done():
                    self._discarding = self._executor.submit(self._discard)

    def _discard(self) -> None:
        """Discard the chunks before the floors that are noted so far.

        The floors stay noted, so that the next checkpoint discards the chunks if this fails.
        """
        try:
            # Copied before the sync, because a cut that is noted during the sync may not be on the disk afterwards. Its
            # bytes must not be removed: a power failure would restore the stream without the cut.
            floors = self._view.recent.floors.copy()
            self._journal.settle()
            with Checkpoint(self._base, self._tuning) as checkpoint:
                checkpoint.discard(floors)
                checkpoint.commit()
            self._remove(checkpoint.removals)
        except (OSError, *LMDB_ERRORS) as error:
            logger.warning("bytes that no stream retains stay in the base until the next checkpoint: %s", error)

    def remove_later(self, paths: list[Path]) -> None:
        """Remove files in the background. The next start tries those again that can't be removed."""
        self._executor.submit(self._remove_files, paths)

    def _remove_files(self, paths: list[Path]) -> None:
        for path in paths:
            segment = parse_segment_name(path.name)
            if self._remove_file(path) and segment:
                self._removed.append(segment)

    # The end

    def close(self, applied: int | None) -> bool:
        """Make a last checkpoint if `applied` is the last number of the journal. `applied` is None: make none.

        Tells whether the base has every change now. If not, the next opening replays the journal.
        """
        self._closing = True
        # This waits for the checkpoint under way and for removals.
        self._executor.shutdown()
        self._end(retry=False)
        if self._view.checkpointing is not None or applied != self._journal.last:
            return False
        try:
            with Checkpoint(self._base, self._tuning) as checkpoint:
                checkpoint.take(self._view.recent, self._view.marks)
                checkpoint.set_applied(applied, self._view.last_incarnation)
                checkpoint.set_needed(Needed(self._journal.last_use + 1, self._journal.last_use))
                checkpoint.removed(self._durable_removals())
                checkpoint.commit()
            self._remove(checkpoint.removals)
        except (OSError, *LMDB_ERRORS) as error:
            logger.warning("the last checkpoint failed; the next opening replays the journal: %s", error)
            return False
        return True
