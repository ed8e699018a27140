"""What may be said of a fold."""

import pytest

from everbrook.spark.folds.fold_options import parse_folds
from everbrook.spark.options import InvalidOption, Selection


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "which streams"),
        ({"stream": "a", "whenLogIs": "0"}, "the option whenLogIs must be a number above 0, got '0'"),
        (
            {"stream": "a", "every": "soon"},
            "the option every must be a number and a unit, such as 90s, 15m, 1h or 7d, got 'soon'",
        ),
        ({"stream": "a", "history": "cut"}, "the option history must be keep or drop, got 'cut'"),
        ({"stream": "a", "function": "fold"}, "must name a module and a function in it"),
        ({"stream": "a", "deadLetters": "b"}, "set invalid to skip too"),
        ({"stream": "a", "invalid": "skip", "history": "drop"}, "would be lost"),
        ({"stream": "a", "invalid": "skip", "function": "m:f"}, "a function decides itself"),
        ({"streamPrefix": "a", "invalid": "skip", "deadLetters": "ab"}, "one of the streams that are folded"),
        ({"stream": "a", "evry": "1h"}, "Did you mean every?"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words.replace("?", r"\?")):
        parse_folds(options)


def test_options_are_read() -> None:
    options = {"streamPattern": "s/**", "whenLogIs": "2.5", "every": "1.5h", "history": "drop", "function": "a.b:C.f"}
    parsed = parse_folds(options)
    assert (parsed.policy.when_log_is, parsed.policy.every_ms, parsed.keep_history) == (2.5, 5_400_000, False)
    assert (parsed.selection.pattern, parsed.function) == ("s/**", "a.b:C.f")


@pytest.mark.parametrize(
    "selection, selected",
    [
        (Selection(("a/b",)), True),
        (Selection(("a",)), False),
        (Selection(prefix="a/"), True),
        (Selection(pattern="a/*"), True),
        (Selection(pattern="b/*"), False),
        (Selection(bucket="agents"), True),
    ],
)
def test_a_stream_is_selected_as_the_source_does(selection: Selection, selected: bool) -> None:  # noqa: FBT001
    assert ("a/b" in selection) is selected
