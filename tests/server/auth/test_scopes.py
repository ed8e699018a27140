"""Scopes: how they are read, written, and what they allow."""

import pytest
from hypothesis import given, strategies as st

from everbrook.server.auth.scopes import (
    Grant,
    Verb,
    allows,
    expand,
    format_scopes,
    parse_claimed,
    parse_prefix,
    parse_prefixes,
    parse_scopes,
)

_segments = st.lists(st.text(min_size=1, max_size=8).filter(lambda text: text not in {".", ".."}), max_size=4)


def _may(scopes: str, verb: Verb, path: bytes) -> bool:
    return allows(parse_scopes(scopes), verb, path)


def test_a_scope_grants_its_verbs_on_its_path_and_below() -> None:
    scopes = "read+append:/v1/stream/chats"
    assert _may(scopes, Verb.READ, b"/v1/stream/chats")
    assert _may(scopes, Verb.APPEND, b"/v1/stream/chats/a/b")


@pytest.mark.parametrize("path", [b"/v1/stream/chats2", b"/v1/stream/chat", b"/v1/stream", b"/ds/chats", b""])
def test_a_scope_grants_nothing_beside_its_path(path: bytes) -> None:
    assert not _may("read:/v1/stream/chats", Verb.READ, path)


@pytest.mark.parametrize("verb", [Verb.APPEND, Verb.CREATE, Verb.DELETE, Verb.ADMIN])
def test_a_verb_grants_no_other(verb: Verb) -> None:
    assert not _may("read:/", verb, b"/v1/stream/a")


@pytest.mark.parametrize("verb", list(Verb))
def test_admin_grants_everything_below_its_path(verb: Verb) -> None:
    assert _may("admin:/ds/acme", verb, b"/ds/acme/a")
    assert not _may("admin:/ds/acme", verb, b"/ds/acme2/a")


def test_the_root_is_everything() -> None:
    assert _may("admin:/", Verb.DELETE, b"/ds/acme/a")


def test_a_slash_at_the_end_of_a_path_means_nothing() -> None:
    assert parse_scopes("read:/v1/stream/a/") == parse_scopes("read:/v1/stream/a")


def test_a_path_is_decoded_once() -> None:
    assert parse_prefix("/v1/stream/a%2520b") == b"/v1/stream/a%20b"


def test_scopes_are_separated_by_commas_or_spaces() -> None:
    assert len(parse_scopes("read:/a, append:/b  create:/c,delete:/d")) == 4
    assert parse_prefixes("/a, /b") == (b"/a", b"/b")


@pytest.mark.parametrize(
    "text, said",
    [
        ("read", "verbs, a colon and a path"),
        ("read:", "verbs, a colon and a path"),
        ("write:/a", "'write'"),
        ("read+:/a", "''"),
        ("READ:/a", "'READ'"),
        (":/a", "''"),
        ("read:a", "begins with '/'"),
        ("read:/a//b", "empty or dot segment"),
        ("read:/a/../b", "empty or dot segment"),
        ("read:/a/%2e%2e/b", "empty or dot segment"),
        ("read:/a/%2f%2f/b", "empty or dot segment"),
        ("read:/a%00b", "control character"),
        ("read:/a%5cb", "control character"),
        ("read:/a%ff", "control character"),
        ("read:/a%2", "two hexadecimal digits"),
        ("read://", "empty or dot segment"),
    ],
)
def test_a_scope_that_is_none_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("+", r"\+")):
        parse_scopes(text)


def test_words_of_a_token_that_are_no_scopes_grant_nothing() -> None:
    assert parse_claimed(["openid profile read:users", "read:/a"]) == parse_scopes("read:/a")


def test_a_subject_stands_where_a_scope_says_so() -> None:
    assert expand(parse_scopes("read:/v1/stream/users/{sub}"), "alice") == parse_scopes("read:/v1/stream/users/alice")


@pytest.mark.parametrize("subject", ["", ".", "..", "a/b", "../b", "a\\b", "a\0b", "a\nb", "x" * 300, "\ud800"])
def test_a_subject_that_is_no_plain_segment_is_put_nowhere(subject: str) -> None:
    grants = expand(parse_scopes("read:/v1/stream/users/{sub} read:/public"), subject)
    assert grants == parse_scopes("read:/public")


@pytest.mark.parametrize("subject", ["a%2fb", "%2e%2e", "a,b", "a b", "{sub}", "user:1@example.com", "straße"])
def test_a_subject_is_put_as_it_is_and_never_decoded(subject: str) -> None:
    (grant,) = expand(parse_scopes("read:/v1/stream/{sub}"), subject)
    assert grant.prefix == b"/v1/stream/" + subject.encode()


@given(st.sets(st.sampled_from(list(Verb)), min_size=1), _segments)
def test_scopes_are_read_as_they_are_written(verbs: set[Verb], segments: list[str]) -> None:
    prefix = "".join(f"/{segment.replace('/', '').strip() or 'x'}" for segment in segments)
    try:
        encoded = prefix.encode()
    except UnicodeEncodeError:
        return
    if any(character < 32 or character in {0x5C, 0x7F} for character in encoded) or "/./" in f"{prefix}/":
        return
    if "/../" in f"{prefix}/":
        return
    grants = (Grant(frozenset(verbs), encoded),)
    assert parse_scopes(format_scopes(grants)) == grants


@given(_segments, _segments)
def test_a_prefix_covers_what_begins_with_its_segments(prefix: list[str], path: list[str]) -> None:
    """Whatever texts the segments are, they count as wholes."""
    whole = [[segment.replace("/", "_").encode("utf-8", "replace") for segment in each] for each in (prefix, path)]
    first, second = (b"".join(b"/" + segment for segment in each) for each in whole)
    grants = (Grant(frozenset({Verb.READ}), first),)
    assert allows(grants, Verb.READ, second) == (whole[1][: len(whole[0])] == whole[0])
