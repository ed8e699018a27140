"""Idempotent producers: epochs fence superseded writers, sequence numbers find duplicates and gaps (§5.2.1)."""

from everbrook.protocol.errors import EpochMustStartAtZero, InvalidHeader, SequenceGap, StaleEpoch, quoted
from everbrook.protocol.state import Claim, Producer

MAX_INTEGER = 2**53 - 1
MAX_ID_BYTES = 256

_MAX_DIGITS = len(str(MAX_INTEGER))


def parse_claim(producer_id: bytes | None, epoch: bytes | None, seq: bytes | None) -> Claim | None:
    """Read the three producer headers, which come together or not at all."""
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
    """Tell whether the stream has this append already."""
    return claim.epoch == known.epoch and claim.seq <= known.seq


def accept(known: Producer | None, claim: Claim, now: int) -> Producer:
    """Give the producer's state after an append that is not a duplicate, or refuse it."""
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
