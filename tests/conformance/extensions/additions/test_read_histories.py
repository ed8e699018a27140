"""Random histories, read in every way: bounded reads are slices of the whole, and frames are its messages."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.conformance.extensions.additions.frames import parse_frames
from tests.conformance.extensions.streams import Namespace
from tests.conformance.extensions.test_histories import Histories, History, Payload, Publish, few

pytestmark = pytest.mark.extension("bounded-reads")

Documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@few
@given(messages=st.lists(Payload, min_size=1, max_size=8), data=st.data())
def test_a_bounded_read_is_a_slice_of_the_whole(
    namespace: Namespace, messages: list[bytes], data: st.DataObject
) -> None:
    """Ours: a paged read with `until` equals a slice of the whole; skip and last count its messages."""
    history = History(namespace.fresh("application/octet-stream"))
    for message in messages:
        history.apply(message)
    stream, offsets = history.stream, history.offsets
    start = data.draw(st.integers(0, len(messages)))
    end = data.draw(st.integers(start, len(messages)))
    assert stream.read_all(offsets[start], until=offsets[end]) == b"".join(messages[start:end])
    assert stream.read(offset=offsets[0], skip=start, until=offsets[end]).body == b"".join(messages[start:end])
    last = data.draw(st.integers(1, 10))
    assert stream.read(last=last).body == b"".join(messages[-last:])


@few
@given(steps=Histories)
def test_frames_are_the_retained_messages(namespace: Namespace, steps: list[bytes | Publish]) -> None:
    """Ours: offset, length and payload of each message, before and after cuts."""
    history = History(namespace.fresh("application/octet-stream"))
    for step in steps:
        history.apply(step)
    starts, ends = history.offsets[history.folded : -1], history.offsets[history.folded + 1 :]
    framed = parse_frames(history.stream.read(offset=history.offsets[history.folded], format="frames").body)
    assert [message.payload for message in framed] == history.retained
    assert [(message.start, message.end) for message in framed] == [
        (int(start), int(end)) for start, end in zip(starts, ends, strict=True)
    ]


@few
@given(batches=st.lists(st.lists(Documents, min_size=1, max_size=4), min_size=1, max_size=4))
def test_json_reads_frames_and_positions_agree(namespace: Namespace, batches: list[list[Any]]) -> None:
    """Ours: the rule by which a client derives the offset of each JSON message from its position in the body."""
    stream = namespace.fresh("application/json", *(json.dumps(batch).encode() for batch in batches))
    documents = [document for batch in batches for document in batch]
    body = stream.read(offset="-1").body
    framed = parse_frames(stream.read(offset="-1", format="frames").body)
    assert [json.loads(message.payload) for message in framed] == json.loads(body) == documents
    assert [body[message.start + 1 : message.end] for message in framed] == [message.payload for message in framed]
