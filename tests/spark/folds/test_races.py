"""Others who publish, delete and create streams while they are folded."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest

from everbrook import Client, Stream
from everbrook.client import session_events, state_events
from everbrook.spark.connection import Connection
from everbrook.spark.folds.fold_requests import Log, Opening, Ready
from everbrook.spark.folds.fold_task import Steps
from everbrook.spark.folds.plan import Plan
from everbrook.spark.folds.report import Report
from tests.spark.folds.compactors import Compactor, Query, Row
from tests.spark.folds.histories import bootstrapped, replayed, written

ADA, BOB = state_events.insert("user", "1", "Ada"), state_events.insert("user", "2", "Bob")


def _planned(server: str, stream: Stream[Any], **options: str) -> tuple[Query, Any]:
    query = Query(Compactor(server, stream=stream.name, **options))
    return query, query.plan()


class Late(Steps):
    """Let something happen between the fold and its publication."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def publish(self, connection: Connection, ready: Sequence[Ready]) -> Iterator[Report]:
        self._act()
        return super().publish(connection, ready)


class Early(Steps):
    """Run a function between the plan and the first read."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def read(self, connection: Connection, plan: Plan, opening: Opening) -> Log:
        self._act()
        return super().read(connection, plan, opening)


def _outcomes(server: str, act: Callable[[], object], **options: str) -> dict[str, str]:
    """Fold while something happens, and give what became of each stream."""
    compactor = Compactor(server, **options)
    compactor.steps = Late(act)
    return compactor.outcomes()


def _fold(query: Query, end: Any) -> Row:  # noqa: ANN401
    (report,) = query.run(end).values()
    return report


def test_a_stream_that_was_deleted_is_gone(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    query, end = _planned(server, stream)
    stream.delete()
    assert _fold(query, end)["outcome"] == "gone"


@pytest.mark.parametrize("history", [[1], [ADA, ADA, BOB]], ids=["shorter", "longer"])
def test_a_stream_that_was_created_anew_is_not_the_one_that_was_due(
    server: str, client: Client, prefix: str, history: list[Any]
) -> None:
    stream = written(client, f"{prefix}a", [ADA, {"x": 1}])
    query, end = _planned(server, stream)
    stream.delete()
    written(client, stream.name, history)
    assert _fold(query, end)["outcome"] == "gone"
    assert stream.snapshot() is None


def test_a_stream_that_is_deleted_before_its_snapshot_comes_is_gone(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    assert _outcomes(server, stream.delete, stream=stream.name) == {stream.name: "gone"}


def test_a_stream_that_is_created_anew_before_its_snapshot_comes_does_not_get_it(
    server: str, client: Client, prefix: str
) -> None:
    stream = written(client, f"{prefix}a", [ADA])

    def create_anew() -> None:
        stream.delete()
        written(client, stream.name, [state_events.insert("user", "9", "Eve"), BOB])

    assert _outcomes(server, create_anew, stream=stream.name, history="drop") == {stream.name: "gone"}
    assert bootstrapped(stream) == {"user": {"9": "Eve", "2": "Bob"}}


def test_a_stream_that_is_created_anew_before_it_is_read_has_no_dead_letters(
    server: str, client: Client, prefix: str
) -> None:
    stream = written(client, f"{prefix}a", [1, ADA])

    def create_anew() -> None:
        stream.delete()
        written(client, stream.name, [2, ADA])

    dead = f"dead/{prefix}letters"
    compactor = Compactor(server, stream=stream.name, invalid="skip", deadLetters=dead)
    compactor.steps = Early(create_anew)
    assert compactor.outcomes() == {stream.name: "gone"}
    assert compactor.outcomes() == {stream.name: "gone"}
    compactor.steps = Steps()
    assert compactor.outcomes() == {stream.name: "published"}
    assert [letter["payload"] for letter in client.stream(dead).read().all()] == ["2"]


@pytest.mark.parametrize("at_end", [True, False])
def test_the_snapshot_of_somebody_else_is_not_overwritten(
    server: str, client: Client, prefix: str, *, at_end: bool
) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    before = stream.head().offset
    end = stream.append(BOB)

    def publish() -> None:
        stream.publish(b"[]", offset=end if at_end else before, keep_history=True)

    assert _outcomes(server, publish, stream=stream.name) == {stream.name: "overtaken"}
    snapshot = stream.snapshot()
    assert snapshot is not None
    assert snapshot.data == b"[]"


def test_what_was_overtaken_is_folded_the_next_time(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    first = stream.head().offset
    stream.append(BOB)
    query = Query(Compactor(server, stream=stream.name))
    query.compactor.steps = Late(lambda: stream.publish(b"[]", offset=first))
    assert [report["outcome"] for report in query.batch().values()] == ["overtaken"]
    query.compactor.steps = Steps()
    assert [report["outcome"] for report in query.batch().values()] == ["published"]
    assert bootstrapped(stream) == {"user": {"2": "Bob"}}


def test_a_newer_snapshot_makes_a_batch_needless(server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    query, end = _planned(server, stream)
    stream.append(BOB)
    with stream.materialise() as state:
        state.publish()
    assert _fold(query, end)["outcome"] == "current"
    assert bootstrapped(stream) == {"user": {"1": "Ada", "2": "Bob"}}


def test_two_compactors_and_a_writer_get_along(server: str, client: Client, prefix: str) -> None:
    changes = [ADA, BOB, state_events.delete("user", "1"), session_events.append("text", "1", "more ")]
    streams = [written(client, f"{prefix}{number}", [ADA]) for number in range(8)]

    def write() -> None:
        for change in islice(cycle(changes), 120):
            for stream in streams:
                stream.append(change)

    def compact(history: str) -> set[str]:
        compactor = Compactor(server, streamPrefix=prefix, history=history)
        return {outcome for _ in range(40) for outcome in compactor.outcomes().values()}

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        outcomes = set[str]().union(*pool.map(compact, ["keep", "keep"]))
        writing.result()
    assert outcomes <= {"published", "overtaken", "current"}
    assert [bootstrapped(stream) for stream in streams] == [replayed(stream) for stream in streams]
