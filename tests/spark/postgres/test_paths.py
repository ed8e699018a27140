"""Paths, as they are written and read."""

import pytest
from hypothesis import given, strategies as st

from everbrook.spark.postgres.mapping import METADATA, OPERATION, WHOLE, Field, Metadata, parse_path


@pytest.mark.parametrize(
    "text, names",
    [
        ("value", ("value",)),
        ("value.user.id", ("value", "user", "id")),
        ('value."first name"', ("value", "first name")),
        ('"a.b".c', ("a.b", "c")),
        (r'"say \"hi\""', ('say "hi"',)),
        ("first-name", ("first-name",)),
    ],
)
def test_fields_are_found_by_their_names(text: str, names: tuple[str, ...]) -> None:
    assert parse_path(text) == Field(names)


def test_what_is_told_and_the_whole_have_signs() -> None:
    assert parse_path("$") == WHOLE
    assert [parse_path(f"@{name}") for name in (*METADATA, OPERATION)] == [
        Metadata(name) for name in (*METADATA, OPERATION)
    ]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "@", "@key", "$.a", '"', 'a"b"', '""', " a"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_path(text)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_every_name_can_be_written(names: list[str]) -> None:
    assert parse_path(str(Field(tuple(names)))) == Field(tuple(names))
