"""The levels of a JSON value are counted as a decoder would, whatever its strings hold."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.json_text import MAX_LEVELS, any_too_deep, too_deep
from tests.kit.generated import generated

WORDS = {
    "brackets": b"[{]}" * 200,
    "openings": b"[" * 2 * MAX_LEVELS,
    "closings": b"]" * 2 * MAX_LEVELS,
    "quotation marks": rb"\"[\"",
    "a backslash at its end": rb"[\\",
    "backslashes and a quotation mark": rb"\\\"]\\\\",
    "an escaped letter": rb"\u005b\n[",
    "nothing": b"",
}
texts = st.text('[]{}"\\a', max_size=4)
values = st.recursive(
    st.one_of(texts, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=10,
)


def nested(levels: int, inner: bytes = b"") -> bytes:
    return b"[" * levels + inner + b"]" * levels


def levels_of(value: Any) -> int:  # noqa: ANN401 - any value of JSON
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(levels_of, inner), default=0) if isinstance(value, list | dict) else 0


@pytest.mark.parametrize("opening, closing", [(b"[[", b"]]"), (b'{"a":{"[":', b"}}"), (b'[{"\\"":', b"}]")])
def test_one_level_too_many_is_too_deep(opening: bytes, closing: bytes) -> None:
    deepest = opening * (MAX_LEVELS // 2) + b"1" + closing * (MAX_LEVELS // 2)
    assert not too_deep(deepest)
    assert too_deep(b"[%b]" % deepest)


@pytest.mark.parametrize("word", WORDS)
def test_brackets_in_strings_are_no_levels(word: str) -> None:
    text = b'["%b",{"%b":"%b"}]' % ((WORDS[word],) * 3)
    json.loads(text)
    assert not too_deep(nested(MAX_LEVELS - 2, text))
    assert too_deep(nested(MAX_LEVELS - 1, text))


@generated
@given(values, st.integers(-2, 1))
def test_levels_are_those_of_a_decoder(value: object, beyond: int) -> None:
    levels = MAX_LEVELS - levels_of(value) + beyond
    assert too_deep(nested(levels, json.dumps(value).encode())) is (beyond > 0)


def test_many_values_side_by_side_are_not_deep() -> None:
    assert not too_deep(b"[" + b",".join([b'{"a":[]}'] * 5000) + b"]")


def test_each_message_has_levels_of_its_own() -> None:
    deepest = nested(MAX_LEVELS)
    assert not any_too_deep([deepest, deepest, b"1"])
    assert not too_deep(deepest + b"," + deepest)
    assert any_too_deep([b"1", deepest, nested(MAX_LEVELS + 1)])
    assert too_deep(deepest + b"," + nested(MAX_LEVELS + 1))


def test_no_messages_are_not_deep() -> None:
    assert not any_too_deep([])
