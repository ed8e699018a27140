"""Deliberate bugs of the engine: answers that do not wait for what they rest on."""

from collections.abc import Callable
from typing import cast

import pytest

from everbrook.engine import Engine
from everbrook.engine.committer import Committer, Parked
from everbrook.protocol import Append, Duplicate, Outcome
from tests.crash.bugs.bug import ALL, Bug


def _answer_at_once(patch: pytest.MonkeyPatch, hasty: Callable[[], bool]) -> None:
    """Give answers of some kinds before their change is durable."""
    really_last = cast("property", Engine.last_change).fget
    assert really_last

    def last_change(engine: Engine) -> int:
        return engine.durable_change if hasty() else int(really_last(engine))

    patch.setattr(Engine, "last_change", property(last_change))


def _answer_duplicates_at_once(patch: pytest.MonkeyPatch) -> None:
    """A duplicate changes nothing, so it need not wait, or so it seems."""
    really_execute = Engine.execute
    outcomes: list[Outcome] = []

    def execute(engine: Engine, command: Append) -> Outcome:
        outcomes[:] = []
        outcomes.append(really_execute(engine, command))
        return outcomes[0]

    patch.setattr(Engine, "execute", execute)
    _answer_at_once(patch, lambda: bool(outcomes) and isinstance(outcomes[0], Duplicate))


def _answer_refusals_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nothing is stored when a command is refused, so it need not wait, or so it seems."""
    really_execute = Engine.execute
    refused: list[bool] = []

    def execute(engine: Engine, command: Append) -> Outcome:
        refused[:] = [True]
        outcome: Outcome = really_execute(engine, command)
        refused.clear()
        return outcome

    patch.setattr(Engine, "execute", execute)
    _answer_at_once(patch, lambda: bool(refused))


def _answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def park(_committer: Committer, _number: int, answer: Parked) -> None:
        answer(None)

    patch.setattr(Committer, "park", park)


ENGINE_BUGS = {
    "answer before the commit": Bug(ALL, _answer_before_the_commit, level="engine"),
    "answer a duplicate before the append it repeats": Bug(ALL, _answer_duplicates_at_once, level="engine"),
    "answer a refusal before what it rests on": Bug(ALL, _answer_refusals_at_once, level="engine"),
}
