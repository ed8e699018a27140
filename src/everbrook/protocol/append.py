"""Appends and closes (§5.2, §5.3).

The specification orders the refusals: fenced producer, closed stream, sequence of the producer, content type,
Stream-Seq, expected tail. A closed stream comes before the last four, so that every writer learns of the close.
"""

from collections.abc import Sequence

from everbrook.protocol.commands import Append, Appended, Closed, Decision, Duplicate
from everbrook.protocol.content_type import parse_media_type
from everbrook.protocol.errors import (
    ContentTypeMismatch,
    EmptyAppend,
    InvalidHeader,
    MissingContentType,
    SequenceRegression,
    StreamClosed,
    TailMoved,
    quoted,
)
from everbrook.protocol.lifetime import ended, living_stream
from everbrook.protocol.messages import pack
from everbrook.protocol.offset import OFFSET_DIGITS, format_offset
from everbrook.protocol.producer import accept, advance, continues, is_duplicate, require_current, require_same_append
from everbrook.protocol.state import Claim, Head, Producer, Write
from everbrook.protocol.view import StreamView, View

MAX_STREAM_SEQ_BYTES = 256


def parse_stream_seq(text: bytes | None) -> bytes | None:
    """Parse `Stream-Seq`, an opaque text that is compared byte by byte."""
    if text is not None and len(text) > MAX_STREAM_SEQ_BYTES:
        raise InvalidHeader(f"Stream-Seq holds at most {MAX_STREAM_SEQ_BYTES} bytes, got {len(text)}")
    return text


def parse_expected_tail(if_match: bytes | None) -> int | None:
    """Parse the `If-Match` of an append: the expected tail. `*` stands for any tail."""
    if if_match is None or if_match == b"*":
        return None
    text = if_match.removeprefix(b'"').removesuffix(b'"')
    if len(text) != OFFSET_DIGITS or not text.isdigit():
        raise InvalidHeader(f"If-Match must be the Stream-Next-Offset of an earlier response, got {quoted(if_match)}")
    return int(text)


def decide_append(view: View, command: Append) -> Decision:
    """Decide on an append, a close, or both at once."""
    stream = living_stream(view, command.name, command.now)
    if not command.body and not command.close:
        raise EmptyAppend("the body is empty: send data, or Stream-Closed: true to close the stream")
    if command.body and command.content_type is None:
        raise MissingContentType("a body needs a Content-Type header, the stream's own")
    if stream.head.closed:
        return _decide_closed(stream, command)
    if command.claim:
        return _decide_claimed(stream, command, command.claim)
    changed, data, ends = _append(stream.head, command)
    outcome = Appended(changed) if data else Closed(changed)
    return Decision(outcome, (Write(changed, data, ends),))


def decide_plainly(stream: StreamView, command: Append) -> Write | None:
    """Decide on an append of the most common kind, and return None for any other: `decide_append` decides on those.

    Common is data of the stream's own content type for an open stream, which no condition refuses. It is from nobody in
    particular, or from a known producer whose next sequence it is.
    """
    head, body, claim = stream.head, command.body, command.claim
    identity, stream_seq, producer = head.identity, command.stream_seq, None
    if not body or command.content_type != identity.content_type or command.close or command.expected_tail is not None:
        return None
    if head.closed or ended(head, stream, command.now):
        return None
    if stream_seq is None:
        stream_seq = head.stream_seq
    elif head.stream_seq is not None and stream_seq <= head.stream_seq:
        return None
    if claim is not None:
        known = stream.producer(claim.producer_id)
        if known is None or not continues(known, claim, command):
            return None
        producer = Producer(claim.epoch, claim.seq, command.now, command.position)
    data, ends = pack(identity, body, head.tail, command.split) if identity.json else (body, (head.tail + len(body),))
    if not data:
        return None
    written_at = max(command.now, head.written_at)
    changed = Head(identity, head.tail + len(data), written_at, stream_seq=stream_seq, kept=head.kept)
    return Write(changed, data, ends, claim.producer_id if claim else None, producer)


def _decide_claimed(stream: StreamView, command: Append, claim: Claim) -> Decision:
    """Decide on an append that a producer has numbered. A duplicate is found before any other rule applies (§5.2.1)."""
    known = stream.producer(claim.producer_id)
    if known and is_duplicate(known, claim):
        require_same_append(known, claim, command.position)
        if command.body:
            return Decision(Duplicate(stream.head, known))
        # The sequence number was used for data, but this request only closes. The stream is closed nevertheless: the
        # writer takes the response for a success, and without the close its readers would wait for ever.
        closed, _, _ = _append(stream.head, command)
        return Decision(Closed(closed, known), (Write(closed),))
    producer = accept(known, claim, command.now)
    if command.position is not None or command.resumes_from is not None or (known and known.position is not None):
        producer = advance(producer, known, command)
    changed, data, ends = _append(stream.head, command)
    outcome = Appended(changed, producer) if data else Closed(changed, producer)
    forgotten = () if known else stream.idle_producers(command.now)
    return Decision(outcome, (Write(changed, data, ends, claim.producer_id, producer, forgotten),))


def _decide_closed(stream: StreamView, command: Append) -> Decision:
    """Decide on an append to a closed stream: only a repetition of the close succeeds (§5.2.1)."""
    head, claim = stream.head, command.claim
    known = stream.producer(claim.producer_id) if claim else None
    if claim and known:
        require_current(known, claim)
        if claim == head.closed_by:
            return Decision(Duplicate(head, known))
    if not command.body:
        return Decision(Closed(head))
    raise StreamClosed(
        "the stream is closed: nothing can be appended any more",
        ((b"Stream-Closed", b"true"), (b"Stream-Next-Offset", format_offset(head.tail))),
    )


def _append(head: Head, command: Append) -> tuple[Head, bytes, Sequence[int]]:
    """Return the head after the append, the bytes to store, and the ends of their messages."""
    _check_content_type(head, command)
    _check_stream_seq(head, command)
    data, ends = pack(head.identity, command.body, head.tail, command.split)
    if command.body and not data:
        raise EmptyAppend("the body is an empty array: an append needs at least one message")
    if command.expected_tail is not None and command.expected_tail != head.tail:
        raise TailMoved(
            f"the tail is at {head.tail:016d}, not at {command.expected_tail:016d}",
            ((b"Stream-Next-Offset", format_offset(head.tail)),),
        )
    changed = Head(
        head.identity,
        head.tail + len(data),
        # The times of a stream's appends never decrease, even if the clock is set back: reads by time search them.
        max(command.now, head.written_at),
        command.close,
        command.claim if command.close else None,
        head.stream_seq if command.stream_seq is None else command.stream_seq,
        kept=head.kept,
    )
    return changed, data, ends


def _check_content_type(head: Head, command: Append) -> None:
    """Require the content type of the stream. A request without a body may have any (§5.2)."""
    sent, own = command.content_type, head.identity
    if not command.body or sent is None or sent == own.content_type:
        return
    if parse_media_type(sent) != own.media_type:
        raise ContentTypeMismatch(f"the stream holds {quoted(own.content_type)}, the body is {quoted(sent)}")


def _check_stream_seq(head: Head, command: Append) -> None:
    last, sent = head.stream_seq, command.stream_seq
    if sent is not None and last is not None and sent <= last:
        raise SequenceRegression(f"Stream-Seq must be greater than {quoted(last)}, got {quoted(sent)}")
