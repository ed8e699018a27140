"""What of a listing is visible, against the plain rule: a name is, if a prefix covers it."""

from hypothesis import given, strategies as st

from everbrook.server.auth.scopes import below
from everbrook.server.resources.listing import Span, visible_spans

_names = st.text("ab-/", max_size=6).map(lambda text: f"/{text}".encode())
_prefixes = st.text("ab-/", max_size=5).map(lambda text: f"/{text}".rstrip("/").encode())


def test_a_window_below_a_prefix_is_wholly_visible() -> None:
    assert visible_spans([b"/v1/stream/a"], b"/v1/stream/a/") == (Span(b"/v1/stream/a/"),)


def test_a_window_that_only_begins_like_a_prefix_is_not() -> None:
    assert visible_spans([b"/v1/stream/a"], b"/v1/stream/ab") == ()


def test_of_a_wide_window_only_the_prefixes_are_visible() -> None:
    spans = visible_spans([b"/v1/stream/a", b"/ds/b"], b"/v1/stream/")
    assert spans == (Span(b"/v1/stream/a", exact=True), Span(b"/v1/stream/a/"))


@given(st.sets(_prefixes, max_size=4), _names, st.sets(_names, max_size=40))
def test_visible_is_what_a_prefix_covers(prefixes: set[bytes], window: bytes, names: set[bytes]) -> None:
    spans = visible_spans(prefixes, window)
    seen = {name for name in names if name.startswith(window) and any(span.covers(name) for span in spans)}
    covered = {name for name in names if name.startswith(window) and any(below(each, name) for each in prefixes)}
    assert seen == covered


@given(st.sets(_prefixes, max_size=4), _names, st.sets(_names, max_size=40))
def test_spans_are_apart_and_in_the_order_of_names(prefixes: set[bytes], window: bytes, names: set[bytes]) -> None:
    spans = visible_spans(prefixes, window)
    listed = [name for span in spans for name in sorted(names) if span.covers(name)]
    assert listed == sorted(set(listed))
