"""A job under supervision, with a query that fails when it is told to."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from everbrook import Retry
from everbrook.spark.jobs.model import Job, PostgresKeys, ServerKeys, Trigger
from everbrook.spark.jobs.resources import OutOfReach
from everbrook.spark.jobs.status import Board, State
from everbrook.spark.jobs.supervisor import Supervisor, finish
from everbrook.spark.options import InvalidOption

SPARK = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda _name, _value: None))
SOON = Retry(first_delay_secs=0.001, max_delay_secs=0.002)


class Query:
    """A query that ends as it is told, once it has been looked at a few times."""

    def __init__(self, end: Callable[[], bool], messages: tuple[str, ...] = ("Waiting",)) -> None:
        self._end, self._messages = end, list(messages)
        self.isActive, self.stopped_behind = True, ""
        self.recentProgress: list[object] = []

    @property
    def status(self) -> dict[str, str]:
        return {"message": self._messages.pop(0) if len(self._messages) > 1 else self._messages[0]}

    def awaitTermination(self, _secs: float) -> bool:
        return self._end()

    def stop(self) -> None:
        self.stopped_behind = self._messages[0]


class Kind:
    """A source and a sink in one, with one thing after the other that happens when it is begun."""

    def __init__(self, *happenings: Query | Exception) -> None:
        self._happenings = list(happenings)

    def endpoints(self, _job: Job) -> tuple[Any, ...]:
        return (self,)

    def __hash__(self) -> int:
        return 1

    def reach(self) -> None:
        if isinstance(self._happenings[0], OutOfReach):
            raise self._happenings.pop(0)  # type: ignore[misc]

    def read(self, _spark: object, _job: Job) -> None:
        """Read nothing."""

    def write(self, *_: object) -> Query:
        happening = self._happenings.pop(0)
        if isinstance(happening, Exception):
            raise happening
        return happening


def fails(words: str, *, looks: int = 0, message: str = "Waiting") -> Query:
    """A query that fails after its status was read so many times."""
    left = [False] * looks

    def end() -> bool:
        if left:
            return left.pop()
        raise RuntimeError(words)

    return Query(end, (message,))


def done() -> Query:
    return Query(lambda: True)


def supervised(
    *happenings: Query | Exception, alive: bool = True, max_restarts: int | None = None, well_secs: float = 60.0
) -> Board:
    """Run a job through what happens, and give what the board says in the end."""
    kind: Any = Kind(*happenings)
    job = Job("copy", kind, kind, Trigger(ends=True), Path(), ServerKeys(), PostgresKeys(), max_restarts=max_restarts)
    board, engine = Board([("copy", "a → b")]), Future[Any]()
    engine.set_result(SimpleNamespace(spark=SPARK, alive=alive))
    supervisor = Supervisor(job, engine, board, threading.Event(), threading.Semaphore(), SOON, well_secs)
    supervisor.run()
    return board


def test_a_query_that_fails_is_started_again() -> None:
    state = supervised(fails("first"), fails("second"), done())["copy"]
    assert (state.state, state.restarts, state.failures, state.error) == (State.DONE, 2, 2, "second")


def test_what_can_not_be_reached_is_waited_for_and_is_no_restart() -> None:
    state = supervised(OutOfReach("nobody is there"), done())["copy"]
    assert (state.state, state.restarts, state.error) == (State.DONE, 0, "nobody is there")


def test_what_a_restart_can_not_mend_is_given_up() -> None:
    state = supervised(InvalidOption("no such option"))["copy"]
    assert (state.state, state.restarts, state.error) == (State.FAILED, 0, "no such option")


def test_no_more_restarts_than_were_allowed() -> None:
    state = supervised(fails("a"), fails("b"), fails("c"), done(), max_restarts=2)["copy"]
    assert (state.state, state.restarts, state.error) == (State.FAILED, 2, "c")


def test_restarts_are_counted_anew_behind_a_time_of_good_work() -> None:
    happenings = [fails(words, looks=3) for words in "abcd"]
    state = supervised(*happenings, done(), max_restarts=1, well_secs=0)["copy"]
    assert (state.state, state.restarts, state.error) == (State.DONE, 4, "d")


@pytest.mark.parametrize("message", ["Processing new data", "Getting offsets from everbrook_postgres"])
def test_a_long_batch_that_always_fails_is_no_good_work(message: str) -> None:
    happenings = [fails(words, looks=3, message=message) for words in "abc"]
    state = supervised(*happenings, done(), max_restarts=2, well_secs=0)["copy"]
    assert (state.state, state.restarts, state.error) == (State.FAILED, 2, "c")


def test_what_can_not_be_reached_is_waited_for_however_few_restarts_are_allowed() -> None:
    state = supervised(*[OutOfReach("away")] * 5, fails("broken"), done(), max_restarts=1)["copy"]
    assert (state.state, state.restarts) == (State.DONE, 1)


def test_without_a_jvm_a_job_stops() -> None:
    state = supervised(fails("connection lost"), alive=False)["copy"]
    assert (state.state, state.error) == (State.STOPPED, "the JVM of Spark has gone")


def test_a_query_is_stopped_behind_its_batch() -> None:
    query = Query(lambda: False, ("Processing new data", "Processing new data", "Getting offsets"))
    finish(query)
    assert query.stopped_behind == "Getting offsets"


def test_a_batch_that_takes_too_long_is_not_waited_for() -> None:
    query = Query(lambda: False, ("Processing new data",))
    finish(query, within_secs=0.05)
    assert query.stopped_behind == "Processing new data"


@pytest.mark.parametrize("happening", [OutOfReach("away"), fails("broken")])
def test_a_pause_ends_when_all_is_to_stop(happening: Query | Exception) -> None:
    kind: Any = Kind(happening)
    job = Job("copy", kind, kind, Trigger(), Path(), ServerKeys(), PostgresKeys())
    board, stopping, engine = Board([("copy", "a → b")]), threading.Event(), Future[Any]()
    engine.set_result(SimpleNamespace(spark=SPARK, alive=True))
    supervisor = Supervisor(
        job, engine, board, stopping, threading.Semaphore(), Retry(first_delay_secs=600, max_delay_secs=600)
    )
    supervisor.start()
    while board["copy"].error is None:
        stopping.wait(0.01)
    stopping.set()
    supervisor.join()
    assert board["copy"].state is State.STOPPED
