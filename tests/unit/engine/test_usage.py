"""Usage: whatever is forked, cut and ended in whatever order, it is what streams and their forks need."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from everbrook.engine.limits import Limits
from everbrook.engine.usage import EVERYTHING
from everbrook.protocol.errors import ProtocolError
from tests.unit.engine.model.needing import check_usage
from tests.unit.engine.rig import Rig

NAMES = [b"/ds/acme/%d" % number for number in range(4)]
BODY = b"12345"

Step = Callable[[Rig, bytes, bytes], object]


def tail_of(rig: Rig, name: bytes) -> int:
    return rig.open(name).committed.tail


STEPS: dict[str, Step] = {
    "create": lambda rig, name, _: rig.create(name, BODY),
    "append": lambda rig, name, _: rig.append(name, BODY),
    "fork": lambda rig, name, source: rig.fork(name, source, body=BODY),
    "cut": lambda rig, name, _: rig.publish(name, tail_of(rig, name), b"snap"),
    "cover": lambda rig, name, _: rig.publish(name, tail_of(rig, name), b"shot", keep_history=True),
    "retain": lambda rig, name, _: rig.retain(name, rig.kept(name).earliest + len(BODY)),
    "delete": lambda rig, name, _: rig.delete(name),
    "restart": lambda rig, _name, _source: rig.restart(),
}

# What ends streams is rarer, so that there are some.
OFTEN = {"append": 3, "fork": 4, "cut": 3}


@pytest.mark.parametrize("seed", range(30))
def test_usage_is_what_streams_and_their_forks_need(seed: int) -> None:
    rig, chance = Rig(Limits(max_total_bytes=2**60, max_bucket_bytes=2**60)), Random(seed)
    rig.create_bucket(b"acme")
    for step in chance.choices(list(STEPS), [OFTEN.get(step, 1) for step in STEPS], k=80):
        with suppress(ProtocolError):
            STEPS[step](rig, chance.choice(NAMES), chance.choice(NAMES))
        for scope in (EVERYTHING, b"acme"):
            check_usage(rig.engine, scope)
