"""The crash tests can fail: each deliberate bug, switched on by itself, is caught."""

import pytest

from tests.crash.bugs.bug import Bug
from tests.crash.bugs.checkpoint_bugs import CHECKPOINT_BUGS
from tests.crash.bugs.disk_bugs import DISK_BUGS
from tests.crash.bugs.engine_bugs import ENGINE_BUGS
from tests.crash.bugs.journal_bugs import JOURNAL_BUGS
from tests.crash.bugs.retention_bugs import RETENTION_BUGS
from tests.crash.simulation.promises import Violation
from tests.crash.simulation.replay import Plan, replay

ALL_BUGS = {**DISK_BUGS, **JOURNAL_BUGS, **CHECKPOINT_BUGS, **RETENTION_BUGS, **ENGINE_BUGS}
MAX_SEEDS = 30


def crash_until_caught(bug: Bug, mode: str) -> None:
    """Crash a store that has a bug, with one seed after the other."""
    for seed in range(bug.seed, bug.seed + MAX_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            bug.sow(patch)
            for _ in replay(Plan(mode, seed, bug.level, bug.alters)):
                pass


@pytest.mark.parametrize("name, mode", [(name, mode) for name, bug in ALL_BUGS.items() for mode in bug.modes])
def test_a_deliberate_bug_is_caught(name: str, mode: str) -> None:
    with pytest.raises(Violation, match="replay it with") as caught:
        crash_until_caught(ALL_BUGS[name], mode)
    # A patch that does not fit the code any more proves nothing.
    assert not isinstance(caught.value.__cause__, (AttributeError, NameError, TypeError))
