"""Globs over paths: one pattern against a matcher that can be read at a glance, and many at once."""

import sys
from itertools import product
from types import FrameType

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.subscriptions.pattern import GlobTrie, compile_glob, literal_prefix, normal_form
from tests.kit.generated import generated

# A stream may well be called `*`: in a path that is a segment like any other.
segments = st.sampled_from(["a", "b", "ab", "*", "**"])
patterns = st.lists(segments, min_size=1, max_size=5).map("/".join)
paths = st.lists(segments, min_size=1, max_size=5).map("/".join)


def matches(pattern: list[str], path: list[str]) -> bool:
    """Say what a pattern matches, segment by segment (§6.2)."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(matches(pattern[1:], path[taken:]) for taken in range(len(path) + 1))
    return bool(path) and pattern[0] in {"*", path[0]} and matches(pattern[1:], path[1:])


def found(pattern: str, path: str) -> bool:
    """Tell whether a pattern matches a path."""
    trie: GlobTrie[str] = GlobTrie()
    trie.add(pattern, "it")
    return trie.match(path) == ["it"]


@pytest.mark.parametrize(
    "pattern, path, matched",
    [
        ("events/*", "events/a", True),
        ("events/*", "events", False),
        ("events/*", "events/a/b", False),
        ("events/**", "events", True),
        ("events/**", "events/a/b", True),
        ("events/**", "event", False),
        ("**", "a", True),
        ("**/b", "b", True),
        ("**/**", "a/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y", False),
        ("a", "a", True),
        ("a*", "ab", False),
        ("a*", "a*", True),
    ],
)
def test_a_star_is_one_segment_and_two_are_any_number(pattern: str, path: str, *, matched: bool) -> None:
    """§6.2: `*` matches one path segment and `**` matches zero or more path segments."""
    assert found(pattern, path) is matched


@pytest.mark.parametrize("path, matched", [("*/x", ["*/x"]), ("a/x", ["*/x", "a/x"]), ("a", []), ("b/y", [])])
def test_a_star_in_a_path_is_a_segment_like_any_other(path: str, matched: list[str]) -> None:
    trie: GlobTrie[str] = GlobTrie()
    for pattern in ("a/x", "*/x"):
        trie.add(pattern, pattern)

    assert sorted(trie.match(path)) == matched


@pytest.mark.parametrize(
    "pattern, normal",
    [
        ("**/**/**", ("**",)),
        ("a/**/*/**/*/b", ("a", "*", "*", "**", "b")),
        ("*/*", ("*", "*")),
        ("a/**", ("a", "**")),
    ],
)
def test_wildcards_that_follow_each_other_become_as_few_as_they_can_be(pattern: str, normal: tuple[str, ...]) -> None:
    assert normal_form(pattern) == normal


@generated
@given(st.lists(segments, min_size=1, max_size=12), st.lists(segments, min_size=1, max_size=8))
def test_a_compiled_pattern_matches_what_it_says(pattern: list[str], path: list[str]) -> None:
    assert compile_glob("/".join(pattern)).matches("/".join(path)) is matches(pattern, path)


@generated
@given(st.lists(segments, min_size=9, max_size=14), st.lists(segments, min_size=1, max_size=8))
def test_a_long_pattern_among_many_matches_what_it_says(pattern: list[str], path: list[str]) -> None:
    assert bool(found("/".join(pattern), "/".join(path))) is matches(pattern, path)


def test_no_pattern_makes_a_path_cost_more_than_its_length() -> None:
    """A path of which each segment could belong anywhere in each pattern."""
    trie: GlobTrie[str] = GlobTrie()
    chosen = ["/".join(("**", *middle, *["a/**"] * 40, "b")) for middle in product("ab*", repeat=3)]
    for pattern in chosen:
        trie.add(pattern, pattern)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert trie.match("/".join(["a"] * 200)) == []
    finally:
        sys.setprofile(None)
    assert calls < 10 * len(chosen)


@generated
@given(st.lists(patterns, max_size=6, unique=True), paths)
def test_all_patterns_that_match_are_found_at_once_each_of_them_once(chosen: list[str], path: str) -> None:
    trie: GlobTrie[str] = GlobTrie()
    for pattern in chosen:
        trie.add(pattern, pattern)

    expected = [pattern for pattern in chosen if matches(pattern.split("/"), path.split("/"))]
    assert sorted(trie.match(path)) == sorted(expected)


@generated
@given(st.lists(st.tuples(patterns, st.integers(0, 2)), max_size=8, unique=True), st.data())
def test_what_was_removed_is_not_found_and_leaves_nothing_behind(
    chosen: list[tuple[str, int]], data: st.DataObject
) -> None:
    trie: GlobTrie[tuple[str, int]] = GlobTrie()
    for pattern, number in chosen:
        trie.add(pattern, (pattern, number))
    order = data.draw(st.permutations(chosen))
    path = data.draw(paths)

    while order:
        pattern, number = order.pop()
        trie.remove(pattern, (pattern, number))
        expected = [(kept, n) for kept, n in order if matches(kept.split("/"), path.split("/"))]
        assert sorted(trie.match(path)) == sorted(expected)
    assert trie._root.children == {}  # noqa: SLF001


def test_a_pattern_that_was_removed_leaves_those_above_it() -> None:
    trie: GlobTrie[int] = GlobTrie()
    trie.add("a/b", 1)
    trie.add("a/b/c", 2)
    trie.remove("a/b/c", 2)
    assert (trie.match("a/b/c"), trie.match("a/b")) == ([], [1])
    trie.remove("a/b", 1)
    trie.add("x/b", 3)
    assert (trie.match("a/b"), trie.match("x/b")) == ([], [3])


def test_one_pattern_may_have_many_values() -> None:
    trie: GlobTrie[int] = GlobTrie()
    trie.add("a/*", 1)
    trie.add("a/*", 2)
    trie.remove("a/*", 1)

    assert trie.match("a/b") == [2]


@pytest.mark.parametrize(
    "pattern, prefix",
    [("a/b", "a/b"), ("a/*", "a/"), ("a/*/b", "a/"), ("a/**", "a"), ("*", ""), ("**", ""), ("a/b/**/c", "a/b")],
)
def test_a_pattern_tells_where_to_look(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


@generated
@given(patterns, paths)
def test_whatever_a_pattern_matches_begins_with_its_prefix(pattern: str, path: str) -> None:
    assert path.startswith(literal_prefix(pattern)) or not found(pattern, path)


def test_a_long_pattern_goes_when_its_last_value_does() -> None:
    """It is kept apart from the trie."""
    trie: GlobTrie[str] = GlobTrie()
    long = "**/" + "a/" * 20 + "b"
    path = "a/" * 20 + "b"
    trie.add(long, "one")
    trie.add(long, "two")
    assert trie.match(path) == ["one", "two"]
    trie.remove(long, "one")
    assert trie.match(path) == ["two"]
    trie.remove(long, "two")
    assert trie.match(path) == []


def test_a_place_that_is_reached_in_two_ways_counts_once() -> None:
    trie: GlobTrie[str] = GlobTrie()
    trie.add("**/a/**", "it")
    assert trie.match("a/a") == ["it"]
