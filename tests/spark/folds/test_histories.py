"""A client that begins with the snapshot comes to the state of one that reads everything, whatever the history."""

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from everbrook import Client
from tests.spark.folds.compactors import Compactor
from tests.spark.folds.histories import bootstrapped, histories, replayed, spoilt_histories, written

_numbers = count()
_generated = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _name(prefix: str) -> str:
    return f"{prefix}{next(_numbers)}"


@given(before=spoilt_histories, after=spoilt_histories)
@_generated
def test_snapshot_and_tail_are_the_whole_history(
    server: str, client: Client, prefix: str, before: list[Any], after: list[Any]
) -> None:
    stream = written(client, _name(prefix), before)
    Compactor(server, stream=stream.name, invalid="skip").fold()
    if after:
        stream.extend(after)
    assert bootstrapped(stream) == replayed(stream)


@given(parts=histories.flatmap(lambda first: histories.map(lambda second: [first, second, first])))
@_generated
def test_folds_go_on_from_each_other(server: str, client: Client, prefix: str, parts: list[list[Any]]) -> None:
    stream = written(client, _name(prefix), [])
    compactor = Compactor(server, stream=stream.name, invalid="skip")
    for part in parts:
        stream.extend(part)
        (report,) = compactor.fold().values()
        assert (report["outcome"], report["events"]) == ("published", len(part))
        assert bootstrapped(stream) == replayed(stream)


@given(before=histories, after=histories)
@_generated
def test_nothing_is_missed_where_the_history_was_dropped(
    server: str, client: Client, prefix: str, before: list[Any], after: list[Any]
) -> None:
    name = _name(prefix)
    stream, twin = written(client, name, before), written(client, f"{name}-twin", before + after)
    Compactor(server, stream=name, invalid="skip", history="drop", deadLetters=f"{prefix}letters").fold()
    stream.extend(after)
    assert replayed(stream) == replayed(twin)
    assert stream.head().earliest_offset == stream.head().snapshot_offset != None  # noqa: E711 - it is there


@pytest.mark.parametrize("messages", [1, 40_000])
def test_a_history_of_many_pages_is_folded_page_by_page(
    server: str, client: Client, prefix: str, messages: int
) -> None:
    changes = [
        {"type": "user", "key": str(number % 7), "value": {"n": number}, "headers": {"operation": "upsert"}}
        for number in range(messages)
    ]
    stream = written(client, _name(prefix), changes)
    (report,) = Compactor(server, stream=stream.name).fold().values()
    assert (report["events"], report["entities"]) == (messages, min(messages, 7))
    assert bootstrapped(stream) == replayed(stream)
