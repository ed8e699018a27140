"""What a page shows is held against what was printed, line by line."""

import pytest

from tests.tooling.docs.console import Command, outputs_of, parse_console
from tests.tooling.docs.shown import first_missing, matches, promised, shape


def test_promises_are_the_comments_with_an_arrow() -> None:
    assert promised("ls   # → a b\nls # lists\nprint(1)  # -> 1  \n") == ["a b", "1"]


@pytest.mark.parametrize(
    "texts, missing",
    [(["a", "b"], None), (["b", "a"], "a"), (["a", "a"], "a"), (["x…y"], None), (["x…b"], "x…b"), ([], None)],
)
def test_promises_are_kept_in_their_order(texts: list[str], missing: str | None) -> None:
    assert first_missing(texts, "a b\nx.*y\n") == missing


@pytest.mark.parametrize(
    "shown",
    [
        "one\ntwo  2\nthree",
        "one\ntwo   2\nthree\n",
        "…\nthree",
        "one\n…",
        "one\n…\nthree",
        "…ne\ntwo…\nthr…e",
        "…\none\ntwo  2\nthree",
    ],
)
def test_dots_stand_for_anything(shown: str) -> None:
    assert matches(shown, "one\ntwo     2 \nthree\n")


@pytest.mark.parametrize(
    "shown", ["one\nthree", "one\ntwo  2", "two  2\nthree", "one\ntwo 2\nthree", "o.e\n…", "…\nthree\n…\none"]
)
def test_another_output_is_told_apart(shown: str) -> None:
    assert not matches(shown, "one\ntwo     2 \nthree\n")


def test_json_is_compared_by_its_keys_and_types() -> None:
    shown = '{"a": [1, "x"], "b": {"c": null}}'
    assert shape(shown) == shape('{"b": {"c": null}, "a": [2, "y"]}')
    assert shape(shown) != shape('{"b": {"c": 1}, "a": [2, "y"]}')


def test_a_console_is_read_as_commands_with_their_outputs() -> None:
    commands = parse_console("$ ls \\\n> -l\nx\ny\n$ true\n$ echo '> a'\n> a\n")
    assert commands == [Command("ls \\\n-l\n", "x\ny\n"), Command("true\n", ""), Command("echo '> a'\na\n", "")]


def test_a_console_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        parse_console("ls\n")


def test_outputs_are_split_at_the_marks() -> None:
    assert outputs_of("one\n\x1e\x1etwo\x1e") == ["one\n", "", "two"]
