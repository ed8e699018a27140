"""Offsets in paths (002 §5)."""

from urllib.parse import unquote

from tests.conformance.extensions.streams import Stream


def escaped(offset: str) -> str:
    """The same offset, every character percent-encoded."""
    return "".join(f"%{ord(character):02X}" for character in offset)


def test_an_escaped_offset_publishes(stream: Stream) -> None:
    """002 §5: clients and servers MUST apply standard URL encoding/decoding."""
    offset = stream.append(b"one")
    assert stream.publish(escaped(offset), b"folded").status == 204
    assert stream.head().headers["stream-snapshot-offset"] == offset
    assert stream.snapshot(offset).body == b"folded"


def test_an_escaped_offset_reads(stream: Stream) -> None:
    """002 §5: clients and servers MUST apply standard URL encoding/decoding."""
    offset = stream.published(stream.append(b"one"))
    answer = stream.snapshot(escaped(offset).lower())
    assert (answer.status, answer.headers["stream-snapshot-offset"]) == (200, offset)


def test_an_escaped_offset_deletes(stream: Stream) -> None:
    """002 §5: clients and servers MUST apply standard URL encoding/decoding."""
    offset = stream.published(stream.append(b"one"))
    assert stream.delete_snapshot(escaped(offset)).status == 409


def test_the_redirect_to_the_latest_snapshot_decodes_to_its_offset(stream: Stream) -> None:
    """002 §5: snapshot_offset values MAY contain characters requiring URL encoding."""
    offset = stream.published(stream.append(b"one"))
    assert unquote(stream.latest().headers["location"]).endswith(f"/snapshot/{offset}")


def test_an_escaped_offset_is_read_in_a_query_too(stream: Stream) -> None:
    """002 §5: clients and servers MUST apply standard URL encoding/decoding."""
    offset = stream.append(b"one")
    stream.append(b"two")
    assert stream.client.get(f"{stream.path}?offset={escaped(offset)}").body == b"two"
