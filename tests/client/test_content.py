"""Values and the bytes that carry them: what was encoded decodes to the same, whatever the user's type."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field

from everbrook.client.content import Codec, Kind, content_type_for, join, kind_of
from everbrook.client.errors import InvalidAnswer, InvalidMessage


class AsStruct(msgspec.Struct):
    id: int
    tags: list[str] = []


@dataclass
class AsDataclass:
    id: int
    at: datetime


class AsDict(TypedDict):
    id: int


class AsModel(BaseModel):
    model_config = ConfigDict(strict=True)

    user_id: int = Field(alias="userId")
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class AroundModel:
    models: list[AsModel]


VALUES: list[tuple[Any, Any]] = [
    (AsStruct, AsStruct(1, ["a"])),
    (AsDataclass, AsDataclass(1, datetime(2026, 1, 1, tzinfo=UTC))),
    (AsDict, {"id": 1}),
    (AsModel, AsModel(userId=7)),
    (AroundModel, AroundModel([AsModel(userId=7)])),
    (int, 3),
    (None, {"any": ["thing", None, 1.5]}),
]


@pytest.mark.parametrize("type_, value", VALUES)
def test_a_value_of_every_kind_of_type_comes_back(type_: type[Any], value: object) -> None:
    codec: Codec[Any] = Codec(type_)
    assert codec.decode(codec.encode(Kind.JSON, value)) == value


def test_a_model_is_written_by_the_names_it_is_read_by() -> None:
    assert msgspec.json.decode(Codec(AsModel).encode(Kind.JSON, AsModel(userId=7)))["userId"] == 7


def test_models_may_stand_inside_plain_values() -> None:
    assert msgspec.json.decode(Codec().encode(Kind.JSON, {"user": AsModel(userId=7)}))["user"]["userId"] == 7


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.lists(JSON_VALUES))
def test_a_body_of_many_values_is_the_page_that_holds_them(values: list[Any]) -> None:
    codec: Codec[Any] = Codec()
    assert codec.decode_all(join(Kind.JSON, [codec.encode(Kind.JSON, value) for value in values])) == values


@pytest.mark.parametrize("value", [b"[1]", bytearray(b"[1]"), memoryview(b"[1]")])
@pytest.mark.parametrize("kind", Kind)
def test_bytes_are_taken_as_they_are(kind: Kind, value: bytes) -> None:
    assert Codec().encode(kind, value) == b"[1]"


def test_text_is_written_as_text() -> None:
    assert Codec().encode(Kind.TEXT, "é") == "é".encode()
    assert Codec().encode(Kind.JSON, "é") == '"é"'.encode()


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.BINARY])
def test_what_is_no_text_is_refused_by_a_stream_of_text_or_bytes(kind: Kind) -> None:
    with pytest.raises(TypeError, match=f"a {kind.value} stream takes str or bytes, got dict: {{'a': 1}}"):
        Codec().encode(kind, {"a": 1})


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="a value of type object cannot be written as JSON"):
        Codec().encode(Kind.JSON, object())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1, {"a": (None, math.nan)}], AsStruct(math.nan)])  # type: ignore[arg-type]
def test_what_is_no_number_in_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="nan and infinity can't be written as JSON"):
        Codec().encode(Kind.JSON, value)


def test_what_is_no_number_in_a_model_is_refused() -> None:
    class Measured(pydantic.BaseModel):
        value: float

    with pytest.raises(ValueError, match="nan and infinity can't be written as JSON"):
        Codec().encode(Kind.JSON, Measured(value=math.nan))


def test_null_is_a_value() -> None:
    assert Codec().encode(Kind.JSON, {"a": [None, "null"]}) == b'{"a":[null,"null"]}'


def test_numbers_of_any_size_can_be_read() -> None:
    """The grammar of JSON has no bounds, and a message that cannot be read would hide all that follow it."""
    digits = "7" * 5000
    assert Codec().decode_all(f"[1e999, -1e999, {digits}, 2]".encode()) == [math.inf, -math.inf, Decimal(digits), 2]


@pytest.mark.parametrize("type_", [AsStruct, AsDataclass, AsDict, AsModel, AroundModel])
@pytest.mark.parametrize("data", [b'[{"id": "x", "userId": "x"}]', b"{}", b"[", b'["\xff"]', b"[" * 100_000])
def test_a_page_that_does_not_fit_the_type_is_an_invalid_answer(type_: type[Any], data: bytes) -> None:
    with pytest.raises(InvalidAnswer, match=r"a page of the stream is not an array of JSON|not of the type asked for"):
        Codec(type_).decode_all(data)


def test_nothing_is_an_empty_page() -> None:
    assert Codec().decode_all(b"") == []


@pytest.mark.parametrize(
    "content_type, kind",
    [
        ("application/json", Kind.JSON),
        ("Application/JSON; charset=utf-8", Kind.JSON),
        ("text/plain", Kind.TEXT),
        ("text/event-stream", Kind.TEXT),
        ("application/ld+json", Kind.TEXT),
        ("application/x-ndjson", Kind.TEXT),
        ("application/octet-stream", Kind.BINARY),
        ("application/jsonp", Kind.BINARY),
        ("", Kind.BINARY),
    ],
)
def test_the_content_type_tells_what_the_values_are(content_type: str, kind: Kind) -> None:
    assert kind_of(content_type) is kind


@pytest.mark.parametrize(
    "value, content_type",
    [
        ("a", "text/plain"),
        (b"a", "application/octet-stream"),
        ({}, "application/json"),
        (None, "application/json"),
    ],
)
def test_a_first_value_chooses_a_content_type(value: object, content_type: str) -> None:
    assert content_type_for(value) == content_type


LONE = rb'["\ud83d",{"a":"x\ude00"},"\ud83d\ude00","\\ud83d"]'


@pytest.mark.parametrize("type_", [None, str | dict[str, str]])
def test_a_lone_surrogate_is_read_as_the_replacement_character(type_: type[object] | None) -> None:
    """Gap G-03: whole characters, and backslashes that are data, stay."""
    assert Codec(type_).decode_all(LONE) == ["\ufffd", {"a": "x\ufffd"}, "\N{GRINNING FACE}", r"\ud83d"]


def test_a_lone_surrogate_beside_a_number_without_a_place_is_read() -> None:
    assert Codec[Any]().decode_all(b'["\\ud83d",%b]' % (b"9" * 5000)) == ["\ufffd", Decimal("9" * 5000)]


def test_a_model_reads_a_lone_surrogate_too() -> None:
    class Named(BaseModel):
        name: str

    assert Codec(Named).decode_all(rb'[{"name":"\ud83d"}]') == [Named(name="\ufffd")]


def test_a_misfit_is_found_among_lone_surrogates() -> None:
    with pytest.raises(InvalidMessage) as refused:
        Codec(str).decode_all(rb'["\ud83d",1]')
    assert refused.value.before == ["\ufffd"]
