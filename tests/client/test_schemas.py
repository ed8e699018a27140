"""What the values of a state are decoded into."""

from datetime import UTC, datetime

import pydantic
import pytest
from msgspec import Struct

from everbrook import InvalidChange
from everbrook.client.schemas import Schemas


class Strict(pydantic.BaseModel, strict=True):
    at: datetime


class Event(Struct):
    at: datetime


AT = {"at": "2026-11-15T12:00:00Z"}
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize("kind", [Strict, Event])
def test_a_text_of_json_may_be_a_date(kind: type[Strict | Event]) -> None:
    assert Schemas({"event": kind})("event", AT) == kind(at=NOON)


def test_a_type_without_a_schema_is_left_alone() -> None:
    assert Schemas({"event": Event})("other", AT) is AT


@pytest.mark.parametrize("kind", [Strict, Event])
def test_what_does_not_fit_is_refused_with_the_reason(kind: type[Strict | Event]) -> None:
    with pytest.raises(InvalidChange, match=r"(?s){'at': 'noon'} is no value of type event: .*"):
        Schemas({"event": kind})("event", {"at": "noon"})


def test_any_type_that_msgspec_knows_will_do() -> None:
    assert Schemas({"pair": tuple[int, str]})("pair", [1, "x"]) == (1, "x")
