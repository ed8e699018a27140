"""Idempotent producers (§5.2.1), and the position of a producer in its source (an extension).

Epochs fence superseded writers, sequence numbers find duplicates and gaps. A position is stored atomically with the
append that names it. A writer that takes over from an earlier run begins a new epoch and names the position from which
it resumes. If the stored position differs by then, because the earlier run is still alive, the append is refused, and
the refusal has the stored position.
"""

from msgspec.structs import replace

from everbrook.protocol.commands import Append
from everbrook.protocol.errors import (
    EpochMustStartAtZero,
    Headers,
    InvalidHeader,
    PositionMissing,
    PositionMoved,
    SequenceGap,
    StaleEpoch,
    quoted,
)
from everbrook.protocol.state import Claim, Producer

MAX_INTEGER = 2**53 - 1
MAX_ID_BYTES = 256

_MAX_DIGITS = len(str(MAX_INTEGER))


def parse_claim(producer_id: bytes | None, epoch: bytes | None, seq: bytes | None) -> Claim | None:
    """Parse the three producer headers. A request has all of them or none."""
    if producer_id is None and epoch is None and seq is None:
        return None
    if producer_id is None or epoch is None or seq is None:
        raise InvalidHeader("Producer-Id, Producer-Epoch and Producer-Seq must be sent together")
    if not producer_id:
        raise InvalidHeader("Producer-Id must not be empty")
    if len(producer_id) > MAX_ID_BYTES:
        raise InvalidHeader(f"Producer-Id holds at most {MAX_ID_BYTES} bytes, got {len(producer_id)}")
    return Claim(producer_id, _parse_integer(b"Producer-Epoch", epoch), _parse_integer(b"Producer-Seq", seq))


def _parse_integer(header: bytes, text: bytes) -> int:
    if text.isdigit() and len(text) <= _MAX_DIGITS and (number := int(text)) <= MAX_INTEGER:
        return number
    raise InvalidHeader(f"{header.decode()} must be an integer from 0 to 2^53-1, got {quoted(text)}")


def is_duplicate(known: Producer, claim: Claim) -> bool:
    """Return whether the stream already has the append of this claim."""
    return claim.epoch == known.epoch and claim.seq <= known.seq


def continues(known: Producer, claim: Claim, command: Append) -> bool:
    """Tell whether an append is the next one of its producer, with nothing to check about its position."""
    if claim.epoch != known.epoch or claim.seq != known.seq + 1 or command.resumes_from is not None:
        return False
    return known.position is None or command.position is not None


def accept(known: Producer | None, claim: Claim, now: int) -> Producer:
    """Return the state of the producer after an append that is not a duplicate, or refuse the append."""
    if known is None:
        _require_seq(0, claim)
    else:
        require_current(known, claim)
        if claim.epoch == known.epoch:
            _require_seq(known.seq + 1, claim)
        elif claim.seq:
            raise EpochMustStartAtZero(f"epoch {claim.epoch} is new and must start at seq 0, got {claim.seq}")
    return Producer(claim.epoch, claim.seq, now)


def require_current(known: Producer, claim: Claim) -> None:
    """Fence a producer whose epoch has been superseded."""
    if claim.epoch < known.epoch:
        raise StaleEpoch(
            f"epoch {claim.epoch} was superseded: the producer's current epoch is {known.epoch}",
            ((b"Producer-Epoch", b"%d" % known.epoch),),
        )


def _require_seq(expected: int, claim: Claim) -> None:
    if claim.seq != expected:
        raise SequenceGap(
            f"Producer-Seq {claim.seq} skips ahead: {expected} is expected next",
            ((b"Producer-Expected-Seq", b"%d" % expected), (b"Producer-Received-Seq", b"%d" % claim.seq)),
        )


MAX_POSITION_BYTES = 1024
NOWHERE = b""
"""The value of `Producer-Resumes-From` for a producer without a stored position."""


def parse_position(text: bytes | None) -> bytes | None:
    """Parse `Producer-Position`, an opaque text."""
    if text == NOWHERE:
        raise InvalidHeader("Producer-Position must not be empty")
    return _bounded(b"Producer-Position", text)


def parse_resumed(text: bytes | None) -> bytes | None:
    """Parse `Producer-Resumes-From`: a position, or an empty text if none is stored."""
    return _bounded(b"Producer-Resumes-From", text)


def _bounded(header: bytes, text: bytes | None) -> bytes | None:
    if text is not None and len(text) > MAX_POSITION_BYTES:
        raise InvalidHeader(f"{header.decode()} holds at most {MAX_POSITION_BYTES} bytes, got {len(text)}")
    return text


def format_producer(producer: Producer) -> Headers:
    """Return the headers that describe the state of a producer."""
    told = ((b"Producer-Epoch", b"%d" % producer.epoch), (b"Producer-Seq", b"%d" % producer.seq))
    return told if producer.position is None else (*told, (b"Producer-Position", producer.position))


def require_same_append(known: Producer, claim: Claim, position: bytes | None) -> None:
    """Refuse a repetition of the last sequence number with another position: another writer uses the same epoch."""
    if position is not None and claim.seq == known.seq and position != known.position:
        raise PositionMoved(
            f"Producer-Seq {claim.seq} was used with another position than {quoted(position)}: "
            f"another writer uses epoch {claim.epoch}",
            format_producer(known),
        )


def advance(accepted: Producer, known: Producer | None, command: Append) -> Producer:
    """Add the position to the state of an accepted producer, or refuse the position from which it resumes."""
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
