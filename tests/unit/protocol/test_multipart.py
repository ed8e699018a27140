"""A bootstrap's body: a multipart entity of which each part is one message."""

from array import array
from email.parser import BytesParser
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol.multipart import closing, content_type, next_part_head, part_head, parts
from tests.kit.generated import generated, payloads
from tests.kit.views import BYTES, JSON, head_of

BOUNDARY = b"everbrook-9f1c2e7a"
PICTURE = b"image/png"


def entity(snapshot: bytes, messages: list[bytes], stream_type: bytes, first: int = 0) -> bytes:
    """Write a bootstrap: the snapshot, then the messages as they are stored."""
    trailer = b"," if stream_type == JSON else b""
    stored = [message + trailer for message in messages]
    ends = array("Q", list(accumulate(map(len, stored), initial=first))[1:])
    head = next_part_head(BOUNDARY, stream_type)
    body = parts(head_of(stream_type).identity, head, first, ends, b"".join(stored))
    return part_head(BOUNDARY, PICTURE) + snapshot + body + closing(BOUNDARY)


def parsed(body: bytes) -> list[tuple[bytes, bytes]]:
    """Read an entity with the standard library: the content type and the bytes of each part."""
    message = BytesParser().parsebytes(b"Content-Type: %b\r\n\r\n%b" % (content_type(BOUNDARY), body))
    assert message.is_multipart()
    assert not message.defects
    found = []
    for part in message.walk():
        if part is not message:
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            found.append((part.get_content_type().encode(), payload))
    return found


@generated
@given(payloads, st.lists(payloads, max_size=5), st.sampled_from([BYTES, JSON]), st.integers(0, 10**15))
def test_each_part_comes_back_as_it_was(snapshot: bytes, messages: list[bytes], stream_type: bytes, first: int) -> None:
    """002 §3.2, RFC 2046 §5.1: the boundaries alone separate the messages."""
    body = entity(snapshot, messages, stream_type, first)

    assert parsed(body) == [(PICTURE, snapshot), *((stream_type, message) for message in messages)]


def test_a_bootstrap_is_written_as_in_the_text() -> None:
    """002 §3.2: its example."""
    assert entity(b"<snapshot-bytes>", [b'{"op":1}'], JSON) == (
        b"--everbrook-9f1c2e7a\r\nContent-Type: image/png\r\n\r\n<snapshot-bytes>\r\n"
        b'--everbrook-9f1c2e7a\r\nContent-Type: application/json\r\n\r\n{"op":1}\r\n'
        b"--everbrook-9f1c2e7a--\r\n"
    )


def test_the_content_type_names_the_boundary() -> None:
    """002 §3.2."""
    assert content_type(BOUNDARY) == b"multipart/mixed; boundary=everbrook-9f1c2e7a"


@pytest.mark.parametrize("messages", [[], [b""], [b"", b""]])
def test_an_empty_part_is_a_part(messages: list[bytes]) -> None:
    """002 §3.2: without a snapshot there is an empty first part."""
    assert parsed(entity(b"", messages, BYTES)) == [(PICTURE, b""), *((BYTES, message) for message in messages)]


@generated
@given(st.lists(payloads, max_size=6), st.integers(0, 6))
def test_pages_of_parts_join_to_the_whole(messages: list[bytes], place: int) -> None:
    """A bootstrap is written a page at a time."""
    identity, head = head_of(BYTES).identity, next_part_head(BOUNDARY, BYTES)

    def page(first: int, some: list[bytes]) -> bytes:
        ends = array("Q", list(accumulate(map(len, some), initial=first))[1:])
        return parts(identity, head, first, ends, b"".join(some))

    middle = len(b"".join(messages[:place]))
    assert page(0, messages[:place]) + page(middle, messages[place:]) == page(0, messages)
