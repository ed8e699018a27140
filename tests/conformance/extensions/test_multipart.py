"""The reader of multipart bodies: it takes what RFC 2046 writes and nothing looser."""

import pytest

from tests.conformance.extensions.multipart import (
    MalformedMultipart,
    Part,
    parse_bootstrap,
    parse_boundary,
    parse_multipart,
)

TYPE = "multipart/mixed; boundary=b-1"
TWO = b"--b-1\r\nContent-Type: a/b\r\n\r\n\r\n--b-1\r\nContent-Type: c/d\r\n\r\n\x00\r\n\xff\n\r\n--b-1--\r\n"


def test_parts_keep_their_bytes() -> None:
    assert parse_bootstrap(TYPE, TWO) == [Part("a/b", b""), Part("c/d", b"\x00\r\n\xff\n")]


def test_a_body_without_parts_is_refused() -> None:
    with pytest.raises(MalformedMultipart, match="begins with"):
        parse_multipart(TYPE, b"--b-1--\r\n")


@pytest.mark.parametrize(
    "body, said",
    [
        (b"preamble\r\n" + TWO, "begins with"),
        (TWO.replace(b"\r\n", b"\n"), "begins with"),
        (TWO.removesuffix(b"--\r\n"), "ends with"),
        (TWO + b"epilogue", "ends with"),
        (TWO.replace(b"--b-1\r\nContent-Type: c", b"--b-1 \r\nContent-Type: c"), "delimiter line"),
        (TWO.replace(b"Content-Type: c/d\r\n", b""), "empty line|one header"),
        (TWO.replace(b"c/d\r\n", b"c/d\r\nX: y\r\n"), "one header"),
        (TWO.replace(b"c/d\r\n", b"c/d\r\nContent-Type: c/d\r\n"), "given twice"),
        (TWO.replace(b"Content-Type: c/d", b"Content-Type : c/d"), "not a header"),
    ],
)
def test_anything_looser_than_the_grammar_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(MalformedMultipart, match=said):
        parse_multipart(TYPE, body)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/mixed",
        "multipart/related; boundary=x",
        "multipart/mixed; boundary=",
        "multipart/mixed; boundary=a b",
        f"multipart/mixed; boundary={'x' * 71}",
    ],
)
def test_a_content_type_without_a_boundary_token_is_refused(content_type: str) -> None:
    with pytest.raises(MalformedMultipart, match="boundary"):
        parse_boundary(content_type)
