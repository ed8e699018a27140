"""The judge: opens a damaged store, reads everything, uses it, opens it again, and says what holds."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from msgspec import Struct

from everbrook.protocol import Drop
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import DurableStorage, StorageFull, StoreError
from everbrook.storage.check import Findings, Report, StoreCheck
from soak.flips.damage import Damaging
from soak.flips.justification import Justified, justify
from soak.flips.ledger import Ledger, written
from soak.flips.reader import Reader
from soak.flips.workload import BOOT, StoreImage, open_store

WHOLE, DAMAGED, REFUSED, NOT_OPENED, TORN, ERASED, DIGEST, ENDED, RAISED = (
    "whole",
    "named damage",
    "takes no changes",
    "does not open",
    "torn",
    "end erased",
    "digest is wrong",
    "process ended, next start names it",
    "an exception",
)


class Verdict(Struct):
    """What a damaged store was found to be, and what was wrong with how it behaved."""

    verdict: str
    violations: list[str]
    still_damaged: bool = False
    """Whether streams were still damaged when it was opened again and closed. The checker must find them."""


@contextmanager
def warnings() -> Iterator[list[str]]:
    """Collect what the storage logs."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, collector = logging.getLogger("everbrook.storage"), Collector()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        yield lines
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate


class Expectation(Struct, frozen=True):
    """What is known of a damaged store before it is opened."""

    justified: Justified
    sound: bool
    """Whether the checker finds no damage."""


UNREADABLE = Expectation(Justified(anything=True, refusal=True), sound=False)
"""Of a store whose base can't be read without the end of the process."""


def expect(image: StoreImage, folder: Path, damaging: Damaging) -> Expectation:
    """Find out what a damaged store may say. LMDB may end the process."""
    return Expectation(justify(image, folder, damaging), is_sound(folder))


def is_sound(folder: Path) -> bool:
    """Check a store, in this process."""
    report = Report(folder, "")
    try:
        StoreCheck(folder, Findings(folder, report.enter), BOOT).run()
    except StoreError:
        return False
    return report.sound


class Judge:
    """Judges how a damaged store behaves. LMDB may end the process."""

    def __init__(self, image: StoreImage, folder: Path, expected: Expectation, random: Random, *, walked: bool) -> None:
        """`walked`: the tree of LMDB is walked, as a server does it."""
        self._image = image
        self._folder = folder
        self._random = random
        self._sound = expected.sound
        self._justified = expected.justified
        self._walked = walked
        self._violations: list[str] = []
        self._still_damaged = False

    def verdict(self) -> Verdict:
        """Open the store, read it, use it, and open it again."""
        with warnings() as lines:
            try:
                storage = self._open()
            except StoreError as error:
                if not self._justified.refusal:
                    self._violations.append(f"more loss than there is: {error}")
                return self._done(NOT_OPENED)
            first = Reader(storage, self._image.ledger, self._justified, self._random)
            first.run()
            self._violations += first.violations
            verdict = self._judged(first, storage, lines)
            if storage.refusal:
                self._expect_refusal(storage)
                storage.close()
            else:
                self._use(storage, first)
        return self._done(verdict)

    def _open(self) -> DurableStorage:
        return open_store(self._folder, self._image.mode, self._image.tuning, walked=self._walked)

    def _done(self, verdict: str) -> Verdict:
        if self._sound and verdict in {DAMAGED, REFUSED, NOT_OPENED, DIGEST}:
            self._violations.append(f"the checker finds nothing: {verdict}")
        return Verdict(verdict, self._violations, self._still_damaged)

    def _judged(self, reader: Reader, storage: DurableStorage, warned: list[str]) -> str:
        """Say what was found. Only the end of the journal may be gone without a mark."""
        if storage.refusal:
            return REFUSED
        if reader.damaged or storage.damages:
            return DAMAGED
        if reader.state_number < self._image.ledger.last:
            return TORN if any("cut off" in line for line in warned) else ERASED
        return DIGEST if reader.wrong_blobs else WHOLE

    def _expect_refusal(self, storage: DurableStorage) -> None:
        state = self._image.ledger.state
        stream = next(iter(state.values()))
        try:
            storage.persist([(written(stream, stream.head, b"refused"),)])
        except StorageFull:
            return
        self._violations.append("a store that takes no changes took one")

    # Using it, and opening it again

    def _use(self, storage: DurableStorage, first: Reader) -> None:
        """Append to a whole stream and drop a damaged one; then nothing of it is forgotten."""
        ledger = Ledger()
        ledger.states = [*self._image.ledger.states[: first.state_number + 1]]
        ledger.touched = [*self._image.ledger.touched[: first.state_number + 1]]
        dropped = self._drop(storage, first, ledger)
        self._append(storage, first, ledger)
        marks = storage.damaged_streams
        storage.close()
        try:
            again = self._open()
        except StoreError as error:
            if not self._justified.refusal:
                self._violations.append(f"opened again: more loss than there is: {error}")
            return
        justified = Justified(
            self._justified.anything,
            streams={*self._justified.streams, *self._justified.blocks},
            names=self._justified.names,
            blobs=self._justified.blobs,
            first_state=ledger.last,
        )
        lost = frozenset(stream for damage in storage.damages for stream in damage.streams)
        second = Reader(again, ledger, justified, self._random, lost)
        second.run()
        self._violations += [f"opened again: {violation}" for violation in second.violations]
        forgotten = first.damaged.keys() - second.damaged.keys() - {dropped} - {b"*"}
        self._violations += [f"opened again: {name.decode()} is not damaged any more" for name in sorted(forgotten)]
        if again.damaged_streams < marks:
            self._violations.append(f"opened again: {again.damaged_streams} damaged streams, not {marks}")
        again.close()
        self._still_damaged = bool(second.damaged)

    def _drop(self, storage: DurableStorage, reader: Reader, ledger: Ledger) -> bytes | None:
        for name in sorted(reader.damaged):
            try:
                record = storage.load(name)
            except StreamDamaged:
                continue
            if record is None:
                continue
            if record.damage is None:
                self._violations.append(f"{name.decode()}: what was found damaged is not marked")
            elif record.head.identity.fork is None and not storage.fork_count(record.head.identity.incarnation):
                storage.persist([(Drop(record.head),)])
                storage.apply([(Drop(record.head),)])
                ledger.states.append({each: stream for each, stream in ledger.state.items() if each != name})
                ledger.touched.append(frozenset())
                if storage.load(name) is not None:
                    self._violations.append(f"{name.decode()}: a damaged stream was dropped, and is still there")
                return name
        return None

    def _append(self, storage: DurableStorage, reader: Reader, ledger: Ledger) -> None:
        whole = [stream for name, stream in ledger.state.items() if name not in reader.damaged]
        if not whole:
            return
        stream = self._random.choice(whole)
        change = (written(stream, stream.head, b"after the damage"),)
        storage.persist([change])
        storage.apply([change])
        ledger.take(change)
