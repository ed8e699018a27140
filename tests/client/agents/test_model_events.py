"""Events of any common kind become JSON, and what ends a generation early becomes its last message."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from everbrook.client.model_events import encode_event, encode_failure, encode_failure_discreetly, is_failure


class Struct(msgspec.Struct):
    text: str


class Model(BaseModel):
    text: str = Field(serialization_alias="said")


@dataclass
class Data:
    text: str
    within: Model


@pytest.mark.parametrize(
    "event, message",
    [
        ("word", "word"),
        ({"delta": "é", "n": 1.5}, {"delta": "é", "n": 1.5}),
        (("messages", None), ["messages", None]),
        (Struct("a"), {"text": "a"}),
        (Model(text="a"), {"said": "a"}),
        (Data("a", Model(text="b")), {"text": "a", "within": {"said": "b"}}),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC)}, {"at": "2026-01-02T00:00:00Z"}),
        ({"error": ValueError("no")}, {"error": {"type": "ValueError", "message": "no"}}),
    ],
)
def test_an_event_is_written_as_json(event: object, message: object) -> None:
    assert msgspec.json.decode(encode_event(event)) == message


def test_an_event_that_cannot_be_written_is_named() -> None:
    with pytest.raises(TypeError, match=r"an event of type dict .* \(it holds a complex\): pass `encode`"):
        encode_event({"n": 1j})


class Score(BaseModel):
    score: float
    comment: str | None = None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "event_of",
    [
        lambda number: number,
        lambda number: {"scores": [1, number]},
        lambda number: Score(score=number),
        lambda number: ("scored", {"by": Score(score=number)}),
    ],
    ids=["a number", "within lists", "a model", "within a model"],
)
def test_what_is_no_number_of_json_is_refused_and_never_null(
    event_of: Callable[[float], object], number: float
) -> None:
    with pytest.raises(ValueError, match=r"cannot be written as JSON \(it holds nan or infinity, .*pass `encode`"):
        encode_event(event_of(number))


def test_null_that_was_meant_is_written() -> None:
    assert encode_event(Score(score=1.5)) == b'{"score":1.5,"comment":null}'


def failure(encoded: bytes) -> Any:  # noqa: ANN401 - JSON
    message = msgspec.json.decode(encoded)
    assert is_failure(message)
    return message["error"]


def test_a_failure_has_the_type_and_the_text_of_the_error() -> None:
    assert failure(encode_failure(ValueError("no"))) == {"type": "ValueError", "message": "no"}


def test_a_discreet_failure_has_no_text_of_the_error() -> None:
    assert failure(encode_failure_discreetly(ValueError("key sk-1"))) == {
        "type": "ValueError",
        "message": "the generation failed",
    }


@pytest.mark.parametrize("stop", [asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt()])
def test_being_stopped_is_not_a_failure_of_the_model(stop: BaseException) -> None:
    assert failure(encode_failure(stop))["type"] == "cancelled"


@pytest.mark.parametrize("message", ["error", {"type": "error"}, {"error": {}}, None])
def test_other_messages_are_no_failures(message: object) -> None:
    assert not is_failure(message)
