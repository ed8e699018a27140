"""Running cases: each one in a process of its own, because LMDB may end it over a damaged page.

A case is known by the seed, the mode and its number. The same three give the same store and the same damage.
"""

import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec import Struct, field

from everbrook.storage import StoreError
from soak.flips.damage import BASE, Damaging, damage_store
from soak.flips.judge import ENDED, RAISED, UNREADABLE, Judge, Verdict, expect, is_sound
from soak.flips.workload import StoreImage, make_image, open_store
from soak.progress import say

Result = TypeVar("Result")

CASES_OF_A_STORE = 40
# Of processor time: whoever follows the pages of LMDB in a circle takes more.
MAX_CASE_SECS = 20
SAY_EVERY_SECS = 15.0
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only where it is, and under a name of its own


class Tally(Struct):
    """What became of the cases of a mode."""

    mode: str
    cases: int = 0
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind of file and verdict."""
    violations: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Give the counts of all, and of each kind of file."""
        kinds = sorted({kind for kind, _ in self.verdicts})
        return [f"{self.mode}: {self.cases} cases, {len(self.violations)} violations: {self._counts(kinds)}"] + [
            f"  {kind}: {self._counts([kind])}" for kind in kinds
        ]

    def _counts(self, kinds: list[str]) -> str:
        counts: Counter[str] = Counter()
        for (kind, verdict), count in self.verdicts.items():
            counts[verdict] += count if kind in kinds else 0
        return ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common() if count)


def run_cases(seed: int, mode: str, numbers: Iterable[int], kinds: tuple[str, ...] = ()) -> Tally:
    """Damage stores of a mode. `kinds` are those of the files, if not all."""
    tally, said = Tally(mode), time.monotonic()
    with scratch_folder() as folder:
        cases = Cases(Path(folder), seed, mode, kinds)
        for number in numbers:
            damaging, verdict = cases.run(number)
            tally.cases += 1
            tally.verdicts[damaging.kind, verdict.verdict] += 1
            if verdict.violations:
                replay = f"python -m soak flips --seed {seed} --mode {mode} --case {number}"
                tally.violations.append(f"{replay} {' '.join(('--files', ','.join(kinds)) if kinds else ())}")
                say(f"{tally.violations[-1]}: {damaging}")
                for violation in verdict.violations:
                    say(f"    {violation}")
            if time.monotonic() - said > SAY_EVERY_SECS:
                said = time.monotonic()
                say(tally.lines()[0])
    return tally


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """Make a folder that goes away again, in memory if possible: nothing here is about syncs."""
    memory = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="flips-", dir=memory)


class Cases:
    """The cases of a seed and a mode. Consecutive ones have the same store."""

    def __init__(self, folder: Path, seed: int, mode: str, kinds: tuple[str, ...]) -> None:
        self._folder = folder
        self._seed = seed
        self._mode = mode
        self._kinds = kinds
        self._made = -1
        self._image: StoreImage | None = None

    def run(self, number: int) -> tuple[Damaging, Verdict]:
        """Damage a copy of the store in the way of this case, and judge it."""
        image, store = self._image_of(number // CASES_OF_A_STORE), self._folder / "store"
        random = Random(f"{self._seed} {self._mode} {number}")  # noqa: S311 - it must replay
        shutil.copytree(image.folder, store)
        try:
            damaging = damage_store(store, image.older, random, self._kinds)
            return damaging, _verdict(image, store, damaging, random)
        finally:
            shutil.rmtree(store)

    def _image_of(self, number: int) -> StoreImage:
        if self._image is None or self._made != number:
            shutil.rmtree(self._folder / "made", ignore_errors=True)
            random = Random(f"{self._seed} {self._mode} store {number}")  # noqa: S311 - it must replay
            self._image, self._made = make_image(self._folder / "made", self._mode, random), number
        return self._image


def _verdict(image: StoreImage, store: Path, damaging: Damaging, random: Random) -> Verdict:
    try:
        expected = apart(lambda: expect(image, store, damaging))
    except ProcessEnded:
        expected = UNREADABLE
    judge = Judge(image, store, expected, random, walked=damaging.kind == BASE)
    try:
        verdict = apart(judge.verdict)
    except Raised as raised:
        return Verdict(RAISED, [str(raised)])
    except ProcessEnded as ended:
        return _next_start(image, store, str(ended))
    with suppress(ProcessEnded):
        if verdict.still_damaged and apart(lambda: is_sound(store)):
            verdict.violations.append("opened again: the checker finds nothing")
    return verdict


def _next_start(image: StoreImage, store: Path, ended: str) -> Verdict:
    """Start again after the process has ended, as a server does: that must be refused."""

    def start() -> str:
        try:
            open_store(store, image.mode, image.tuning, walked=True).close()
        except StoreError:
            return ""
        return "the next start opens the store"

    try:
        problem = apart(start)
    except ProcessEnded as again:
        problem = f"so does the next start: {again}"
    return Verdict(ENDED, [f"{ended}, and {problem}"] if problem else [])


class ProcessEnded(Exception):
    """A process ended before it had an answer."""


class Raised(Exception):
    """An exception in another process; its text has the trace."""


def apart(work: Callable[[], Result]) -> Result:
    """Do some work in a fork of this process, which has one thread."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        raise ProcessEnded(f"the process ended by {signal.Signals(-code).name}")
    result: Result | Raised = pickle.loads(answer)  # noqa: S301 - from our own process
    if isinstance(result, Raised):
        raise result
    return result


def _answer(work: Callable[[], Result], writing: int) -> None:
    """Do the work, send what comes of it, and end this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CASE_SECS, MAX_CASE_SECS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = pickle.dumps(work())
    except BaseException:  # noqa: BLE001 - it is the finding
        answer = pickle.dumps(Raised(traceback.format_exc()))
    with os.fdopen(writing, "wb") as answers:
        answers.write(answer)
    os._exit(0)
