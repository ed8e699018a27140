"""Progress: how far a query is behind, and what is told of it."""

from types import SimpleNamespace
from typing import Any

from everbrook import Client
from everbrook.spark import ProgressListener, lag
from everbrook.spark.progress import positions_of


def progress(*ends: str | None, **values: object) -> Any:  # noqa: ANN401 - as Spark's, which has several kinds
    return SimpleNamespace(
        **{
            "id": "q",
            "name": None,
            "batchId": 3,
            "numInputRows": 5,
            "processedRowsPerSecond": 2.5,
            "durationMs": {"addBatch": 7},
            "sources": [SimpleNamespace(endOffset=end) for end in ends],
            **values,
        }
    )


def test_positions_of_other_sources_are_passed_over() -> None:
    assert positions_of(progress('{"": "1", "a": "5"}', '{"topic": {"0": 5}}', "7", None, "no json")) == {"a": "5"}


def test_lag_is_what_lies_between_a_position_and_the_tail(client: Client, server: str, prefix: str) -> None:
    client.stream(f"{prefix}a").create(data=123)
    client.stream(f"{prefix}b").create(data=123)
    ends = f'{{"": "1", "{prefix}a": "0", "{prefix}b": "4", "{prefix}gone": "9"}}'
    assert lag(progress(ends), url=server) == {f"{prefix}a": 4, f"{prefix}b": 0}


def test_a_query_is_an_entity_that_goes_when_it_ends(client: Client, server: str, prefix: str) -> None:
    client.stream(f"{prefix}a").create(data=123)
    listener = ProgressListener(f"{prefix}queries", url=server)
    listener.onQueryStarted(SimpleNamespace(id="q", name="copy", timestamp="2026-01-02T03:04:05.000Z"))
    listener.onQueryProgress(SimpleNamespace(progress=progress(f'{{"": "1", "{prefix}a": "0"}}')))
    with client.stream(f"{prefix}queries").materialise() as state:
        value = state["query"]["q"]
    assert (value["batch"], value["lag_bytes"], value["lag_by_stream"]) == (3, 4, {f"{prefix}a": 4})
    listener.onQueryTerminated(SimpleNamespace(id="q", exception=None))
    assert client.stream(f"{prefix}queries").read().all()[-1]["headers"]["operation"] == "delete"


def test_a_query_that_failed_says_why(client: Client, server: str, prefix: str) -> None:
    listener = ProgressListener(f"{prefix}queries", url=server)
    listener.onQueryTerminated(SimpleNamespace(id="q", exception="it broke"))
    assert client.stream(f"{prefix}queries").read().all()[-1]["value"] == {"status": "failed", "error": "it broke"}


def test_a_query_does_not_fail_when_its_progress_can_not_be_told(client: Client, server: str, prefix: str) -> None:
    listener = ProgressListener(f"{prefix}queries", url=server)
    client.stream(f"{prefix}queries").delete()
    listener.onQueryTerminated(SimpleNamespace(id="q", exception=None))
    assert not client.stream(f"{prefix}queries").exists()
