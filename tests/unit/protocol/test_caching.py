"""Caching: entity tags and cache policy of reads."""

import re

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.read import NO_CACHE, NO_STORE, Page, cache_control, format_etag, matches
from tests.kit.generated import generated
from tests.kit.views import NOW, head_of

DEFAULT = b"public, max-age=60, stale-while-revalidate=300"


def policy_of(page: Page, deadline: int | None = None) -> bytes:
    return cache_control(page, deadline, NOW, private=False)


@st.composite
def pages(draw: st.DrawFn) -> Page:
    tail = draw(st.integers(0, 4))
    end = draw(st.integers(0, tail))
    head = head_of(tail=tail, closed=draw(st.booleans()), incarnation=draw(st.sampled_from([1, 16])))
    return Page(head, draw(st.integers(0, end)), end)


@generated
@given(pages(), pages())
def test_two_answers_share_an_etag_only_if_they_say_the_same(one: Page, other: Page) -> None:
    """§10.1: a 304 hides neither that more came, nor that the stream ended, nor that it is another stream."""

    def said(page: Page) -> tuple[int, int, int, bool, bool]:
        return page.head.identity.incarnation, page.start, page.end, page.up_to_date, page.final

    assert (format_etag(one) == format_etag(other)) == (said(one) == said(other))


@generated
@given(pages())
def test_an_etag_is_one_quoted_word(page: Page) -> None:
    """RFC 9110 §8.8.3; no comma, so that a list of them can be split."""
    assert re.fullmatch(rb'"[0-9a-z:]+"', format_etag(page))


@pytest.mark.parametrize(
    "page, etag",
    [
        (Page(head_of(tail=5, incarnation=10), 1, 3), b'"a:1:3"'),
        (Page(head_of(tail=5, incarnation=10), 1, 5), b'"a:1:5:t"'),
        (Page(head_of(tail=5, incarnation=10, closed=True), 1, 5), b'"a:1:5:c"'),
        (Page(head_of(tail=5, incarnation=10, closed=True), 1, 3), b'"a:1:3"'),
    ],
)
def test_an_etag_names_incarnation_range_tail_and_closure(page: Page, etag: bytes) -> None:
    """§5.6, §10.1."""
    assert format_etag(page) == etag


@generated
@given(pages(), pages())
def test_frames_are_another_form_of_a_page(one: Page, other: Page) -> None:
    """RFC 9110 §8.8.3: a tag names one representation."""
    assert format_etag(one, frames=True) != format_etag(other)
    assert (format_etag(one, frames=True) == format_etag(other, frames=True)) == (
        format_etag(one) == format_etag(other)
    )


@pytest.mark.parametrize(
    "if_none_match", [b'"1:2"', b"*", b" * ", b'W/"1:2"', b'"x", "1:2"', b'"x" ,W/"1:2" ', b'"1:2","y"']
)
def test_a_tag_matches_alone_in_a_list_weakly_or_by_a_star(if_none_match: bytes) -> None:
    """§10.1; RFC 9110 §13.1.2."""
    assert matches(if_none_match, b'"1:2"')


@pytest.mark.parametrize("if_none_match", [b"", b'"1:3"', b"1:2", b'"1:2', b'"1:2:t"', b'"*"', b'w/"1:2"', b"1:2,"])
def test_another_tag_does_not_match(if_none_match: bytes) -> None:
    """§10.1."""
    assert not matches(if_none_match, b'"1:2"')


def test_what_must_not_be_kept_is_said_in_the_words_of_http() -> None:
    """§10, §12.7; RFC 9111 §5.2.2."""
    assert (NO_STORE, NO_CACHE) == (b"no-store", b"no-cache")


def test_a_page_may_be_kept_for_a_minute() -> None:
    """§10.1: chunks at the tail too."""
    head = head_of(tail=5)

    assert policy_of(Page(head, 0, 3)) == policy_of(Page(head, 0, 5)) == DEFAULT


def test_nothing_yet_is_not_kept() -> None:
    """Order of authority, catch-up caching: what it says changes with the next append."""
    assert policy_of(Page(head_of(tail=5), 5, 5)) == b"no-cache"


def test_nothing_ever_more_may_be_kept() -> None:
    """§10.1: the end of a closed stream does not change."""
    assert policy_of(Page(head_of(tail=5, closed=True), 5, 5)) == DEFAULT


@pytest.mark.parametrize(
    "left_ms, policy",
    [
        (-5000, b"public, max-age=0, stale-while-revalidate=0"),
        (0, b"public, max-age=0, stale-while-revalidate=0"),
        (999, b"public, max-age=0, stale-while-revalidate=0"),
        (10_000, b"public, max-age=10, stale-while-revalidate=0"),
        (61_000, b"public, max-age=60, stale-while-revalidate=1"),
        (359_999, b"public, max-age=60, stale-while-revalidate=299"),
        (360_000, DEFAULT),
        (10**9, DEFAULT),
    ],
)
def test_a_page_is_not_kept_longer_than_its_stream(left_ms: int, policy: bytes) -> None:
    """§5.6: derived from TTL and expiry."""
    assert policy_of(Page(head_of(tail=5), 0, 5), NOW + left_ms) == policy


@pytest.mark.parametrize("deadline, max_age", [(None, 60), (NOW + 10_000, 10)])
def test_what_was_read_with_credentials_is_not_for_shared_caches(deadline: int | None, max_age: int) -> None:
    """§10.1: `private` where the data may be confidential."""
    policy = cache_control(Page(head_of(tail=5), 0, 5), deadline, NOW, private=True)

    assert policy.startswith(b"private, max-age=%d," % max_age)
