"""Positions of producers (an extension): where in its source a producer is, stored atomically with its append.

A writer that takes over from an earlier run begins a new epoch and names the position that it resumes from. If the
stored position differs by then, because the earlier run is still alive, the append is refused with the stored one.
"""

from msgspec.structs import replace

from everbrook.protocol.commands import Append
from everbrook.protocol.errors import Headers, InvalidHeader, PositionMissing, PositionMoved, quoted
from everbrook.protocol.state import Claim, Producer

MAX_POSITION_BYTES = 1024
NOWHERE = b""
"""The value of `Producer-Resumes-From` for a producer without a stored position."""


def parse_position(text: bytes | None) -> bytes | None:
    """Read `Producer-Position`, an opaque text."""
    if text == NOWHERE:
        raise InvalidHeader("Producer-Position must not be empty")
    return _bounded(b"Producer-Position", text)


def parse_resumed(text: bytes | None) -> bytes | None:
    """Read `Producer-Resumes-From`: a position, or an empty text if none is stored."""
    return _bounded(b"Producer-Resumes-From", text)


def _bounded(header: bytes, text: bytes | None) -> bytes | None:
    if text is not None and len(text) > MAX_POSITION_BYTES:
        raise InvalidHeader(f"{header.decode()} holds at most {MAX_POSITION_BYTES} bytes, got {len(text)}")
    return text


def format_producer(producer: Producer) -> Headers:
    """Give the headers that describe the state of a producer."""
    told = ((b"Producer-Epoch", b"%d" % producer.epoch), (b"Producer-Seq", b"%d" % producer.seq))
    return told if producer.position is None else (*told, (b"Producer-Position", producer.position))


def require_same_append(known: Producer, claim: Claim, position: bytes | None) -> None:
    """Refuse the sequence number of the last append with another position: another writer uses the same epoch."""
    if position is not None and claim.seq == known.seq and position != known.position:
        raise PositionMoved(
            f"Producer-Seq {claim.seq} was used with another position than {quoted(position)}: "
            f"another writer uses epoch {claim.epoch}",
            format_producer(known),
        )


def advance(accepted: Producer, known: Producer | None, command: Append) -> Producer:
    """Add the position to the state of an accepted producer, or refuse the position that it resumes from."""
    stored, resumed = known.position if known else None, command.resumes_from
    told = format_producer(known) if known else ()
    if resumed is not None and resumed != (stored or NOWHERE):
        found = "no position is stored" if stored is None else f"the stored position is {quoted(stored)}"
        raise PositionMoved(f"Producer-Resumes-From is {quoted(resumed)}, but {found}", told)
    if stored is not None and resumed is None and known and accepted.epoch != known.epoch:
        raise PositionMoved(
            f"the stored position is {quoted(stored)}: a new epoch must name it in Producer-Resumes-From", told
        )
    if stored is not None and command.position is None and command.body:
        raise PositionMissing("the producer has a position, so each append of data needs Producer-Position", told)
    return replace(accepted, position=stored if command.position is None else command.position)
