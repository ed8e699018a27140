"""Kill anything: both directions run, and whatever they consist of is killed at random; at the end all sides agree.

What is killed, and for how long it is gone, comes from a seed; when exactly it strikes depends on the machine.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from soak.ledger import PromiseBroken
from soak.progress import say
from soak.spark.journal import Journal
from soak.sync.controls import ALL, CONTROLS, HELD, Control
from soak.sync.outcome import (
    JVM,
    LONG_SECS,
    PARTS,
    PIPELINE,
    POSTGRES,
    SERVER,
    WORKER,
    Outcome,
    require_found_out,
    require_held,
)
from soak.sync.scene import copied
from soak.sync.world import World

START_SECS, QUIET_SECS, CONTROL_QUIET_SECS, MOVE_SECS, MOMENT_SECS = 300.0, 400.0, 90.0, 120.0, 120.0
CONTROL_KILLS = 2
_SETTLED_SHARE, _TOGETHER_SHARE = 0.75, 0.2
_MAX_PAUSE_SECS, _MAX_DOWN_SECS = 6.0, 3.0
_LOOK_SECS = 0.1


def soak_sync(folder: Path, *, secs: float, seed: int, only: str | None = None) -> None:
    """Kill everything for so long, and then show that broken rules are found out; or show `only` that of some."""
    if only is None:
        outcome = Fire(folder / "whole", seed).run(secs)
        say(f"sync: {outcome}")
        require_held(outcome, secs)
    for control in CONTROLS:
        if only in {None, ALL, control.flaw}:
            outcome = Fire(folder / control.flaw, seed, control).run_control(control)
            say(f"control {control.flaw}: {outcome}")
            require_found_out(control, outcome)


class Fire:
    """A world, and whoever kills parts of it."""

    def __init__(self, folder: Path, seed: int, control: Control | None = None) -> None:
        folder.mkdir(parents=True)
        self._random = Random(seed)  # noqa: S311 - it must replay
        self._folder = folder
        self._journal = Journal(folder / "journal")
        self._control = control
        self._outcome = Outcome()

    def run(self, secs: float) -> Outcome:
        """Kill parts for so long, let the rest arrive, and compare."""
        with ExitStack() as stack:
            world = stack.enter_context(self._world())
            self._begin(world, in_mid_copy=True)
            deadline = time.monotonic() + secs
            deck: list[str] = []
            while time.monotonic() < deadline or (secs >= LONG_SECS and self._outcome.spared()):
                deck = deck or self._random.sample(PARTS, len(PARTS))
                self._strike(world, deck.pop())
                world.check()
            return self._finish(world)

    def run_control(self, control: Control) -> Outcome:
        """Kill the pipeline when its flaw does damage, and compare."""
        with ExitStack() as stack:
            world = stack.enter_context(self._world())
            self._begin(world, in_mid_copy=False)
            for _ in range(CONTROL_KILLS):
                self._await(lambda: world.pipeline.ready, START_SECS, world, "the pipeline did not begin")
                start = self._journal.end()
                held = self._journal.wait(control.flaw, {HELD}, start, MOMENT_SECS, while_true=lambda: True)
                if not held:
                    raise PromiseBroken(f"the control {control.flaw!r} came to no moment to be killed at")
                time.sleep(self._random.uniform(0.1, 0.4))
                self._strike_now(world, PIPELINE, 0)
            return self._finish(world)

    def _world(self) -> World:
        flaw = "" if self._control is None else self._control.flaw
        return World(self._folder, self._random, flaw=flaw, journal=self._journal.path)

    def _begin(self, world: World, *, in_mid_copy: bool) -> None:
        """Let the initial copy be made, of tables that nobody changes meanwhile; a kill may come in between."""
        if in_mid_copy:
            self._await(world.copying, START_SECS, world, "no copy was begun")
            time.sleep(self._random.uniform(0, 0.3))
            self._outcome.copies_broken += not copied(self._folder)
            self._strike_now(world, PIPELINE, 0)
        self._await(lambda: copied(self._folder), START_SECS, world, "the tables were not copied")
        world.begin_load()
        self._await(lambda: world.pipeline.ready, START_SECS, world, "the pipeline did not begin")

    def _strike(self, world: World, part: str) -> None:
        """Wait a little, kill a part, perhaps another one with it, and start what does not start by itself."""
        if part in {PIPELINE, JVM, WORKER} and self._random.random() < _SETTLED_SHARE:
            self._let_move(world)
        time.sleep(self._random.uniform(0, _MAX_PAUSE_SECS))
        down_secs = self._random.uniform(0, _MAX_DOWN_SECS)
        beside = self._random.choice((SERVER, POSTGRES)) if self._random.random() < _TOGETHER_SHARE else ""
        if beside and beside != part:
            world.kill(beside)
            self._outcome.kills[beside] += 1
        self._strike_now(world, part, down_secs, beside if beside != part else "")

    def _strike_now(self, world: World, part: str, down_secs: float, beside: str = "") -> None:
        what = world.kill(part)
        if what:
            self._outcome.kills[part] += 1
        time.sleep(down_secs)
        for each in (beside, part):
            world.start(each)
        with_it = f" and {beside}" if beside else ""
        say(f"killed {what or 'nothing'}{with_it}, gone for {down_secs:.1f} s; so far: {self._outcome.told_kills()}")

    def _let_move(self, world: World) -> None:
        """Wait until something has arrived in both directions since now."""
        before = world.arrived()
        until = time.monotonic() + MOVE_SECS
        while time.monotonic() < until:
            world.check()
            now = world.arrived()
            if all(after > first for first, after in zip(before, now, strict=True)):
                self._outcome.moves += 1
                return
            time.sleep(_LOOK_SECS)

    def _finish(self, world: World) -> Outcome:
        """Change no more, wait until the last of everything has arrived, stop the pipeline, and compare."""
        # What was left of a pipeline is gone when the next one runs: in a control it could take the last rows with it.
        self._await(lambda: world.pipeline.ready, START_SECS, world, "the pipeline did not begin")
        world.end_load()
        begin = time.monotonic()
        self._await_quiet(world)
        self._outcome.quiet_secs = time.monotonic() - begin
        world.pipeline.stop()
        return world.settle(self._outcome)

    def _await_quiet(self, world: World) -> None:
        """Wait until nothing is missing. A control may have lost the very last: then it is compared as it is."""
        quiet = world.quiet()
        deadline = time.monotonic() + (QUIET_SECS if self._control is None else CONTROL_QUIET_SECS)
        while missing := quiet.missing():
            world.check()
            if time.monotonic() > deadline:
                if self._control is not None:
                    return
                raise PromiseBroken(f"it did not become quiet: without {', '.join(missing)}:\n{world.pipeline.output}")
            time.sleep(_LOOK_SECS)

    def _await(self, done: Callable[[], bool], secs: float, world: World, words: str) -> None:
        deadline = time.monotonic() + secs
        while not done():
            world.check()
            if time.monotonic() > deadline:
                raise PromiseBroken(f"{words} within {secs:g} s:\n{world.pipeline.output}")
            time.sleep(_LOOK_SECS)
