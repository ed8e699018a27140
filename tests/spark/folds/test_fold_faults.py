"""Connections that break in the middle: what was sent is there, or is sent again, and what is reported is true."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from everbrook import Client
from everbrook.client import state_events
from everbrook.spark.http_pipeline import Broken, PipelinedConnection, Response
from tests.spark.folds.compactors import Compactor
from tests.spark.folds.histories import bootstrapped, written

ADA = state_events.insert("user", "1", "Ada")


def _broken_after(monkeypatch: pytest.MonkeyPatch, method: str, answers: int) -> None:
    """Let all requests be made, and answers get lost after so many of them."""
    whole = getattr(PipelinedConnection, method)

    def broken(self: PipelinedConnection, *given: Any) -> Iterator[Response]:  # noqa: ANN401 - as it is
        got = list(whole(self, *given))
        yield from islice(got, answers)
        if len(got) > answers:
            raise Broken("the cable was cut")

    monkeypatch.setattr(PipelinedConnection, method, broken)


@pytest.mark.parametrize("method", ["get", "send"])
@pytest.mark.parametrize("answers", [0, 3])
def test_lost_answers_are_asked_for_again(
    server: str, client: Client, prefix: str, monkeypatch: pytest.MonkeyPatch, method: str, answers: int
) -> None:
    streams = [written(client, f"{prefix}{number}", [ADA] * 2) for number in range(20)]
    _broken_after(monkeypatch, method, answers)
    assert Compactor(server, streamPrefix=prefix).outcomes() == {stream.name: "published" for stream in streams}
    assert all(bootstrapped(stream) == {"user": {"1": "Ada"}} for stream in streams)


def test_what_is_refused_over_the_quick_way_is_told_in_its_own_words(
    server: str, client: Client, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = [written(client, f"{prefix}{number}", [ADA]) for number in range(8)]
    send = PipelinedConnection.send

    def late(self: PipelinedConnection, requests: Any, headers: Any) -> Iterator[Response]:  # noqa: ANN401
        streams[2].delete()
        streams[5].publish(b"[]", offset=streams[5].head().offset)
        return send(self, requests, headers)

    monkeypatch.setattr(PipelinedConnection, "send", late)
    outcomes = Compactor(server, streamPrefix=prefix).outcomes()
    assert [outcomes[stream.name] for stream in streams[2:6]] == ["gone", "published", "published", "overtaken"]
