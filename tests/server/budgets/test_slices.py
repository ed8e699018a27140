"""Slices: answers that take long leave the loop to others from the beginning."""

from everbrook.engine import Engine
from everbrook.server.assembly import limits_of
from everbrook.server.deferred import Steps, answer_in_slices
from everbrook.server.exchange import Response, problem_response
from everbrook.settings import Settings
from everbrook.storage import MemoryStorage
from tests.kit.fakes import FakeClock, FakeScheduler, HandWorker

NAME = b"/v1/stream/s"


def test_while_somebody_waits_for_a_turn_nobody_takes_a_first_slice() -> None:
    clock = FakeClock()
    scheduler, answered = FakeScheduler(clock), list[int]()
    engine = Engine(MemoryStorage(), scheduler, clock, limits_of(Settings()), commit_executor=HandWorker())

    def steps(number: int) -> Steps:
        answered.append(number)
        yield Response(200, b"", b"")

    def answer(number: int) -> bool:
        reply = answer_in_slices(engine, NAME, steps(number), lambda error: problem_response(error, b""))
        return isinstance(reply, Response)

    assert answer(1)
    engine.turns.wait(NAME, bool, bool)
    assert not answer(2)
    scheduler.settle()
    assert answer(3)
    assert answered == [1, 3]
