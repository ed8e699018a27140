"""Refusals that rest on the state of a stream, of the source of a fork, or of a producer."""

from everbrook.protocol.errors.families import BadRequest, Conflict, NotFound, PreconditionFailed
from everbrook.protocol.errors.refusal import ProtocolError


class StreamNotFound(NotFound):
    """No stream is at this URL."""

    code = "stream_not_found"


class StreamGone(ProtocolError):
    """The stream is soft-deleted (§4.2)."""

    status = 410
    code = "stream_gone"


class StreamExists(Conflict):
    """The stream exists with another configuration (§5.1)."""

    code = "stream_exists"


class StreamClosed(Conflict):
    """The stream is closed: no append can follow (§4.1)."""

    code = "stream_closed"


class StreamDamaged(ProtocolError):
    """What is stored of the stream is not what was written."""

    status = 500
    code = "stream_damaged"


class OffsetGone(ProtocolError):
    """The offset lies before what the stream retains (002 §2.2)."""

    status = 410
    code = "offset_gone"


class ContentTypeMismatch(Conflict):
    """The content type is not the stream's (§5.2)."""

    code = "content_type_mismatch"


class SequenceRegression(Conflict):
    """Stream-Seq is not greater than the last one (§5.2)."""

    code = "sequence_regression"


class TailMoved(PreconditionFailed):
    """Others have appended since."""

    code = "tail_moved"


class IncarnationMismatch(PreconditionFailed):
    """The stream is another one than the request is meant for."""

    code = "incarnation_mismatch"


class PositionMoved(PreconditionFailed):
    """The producer's stored position is not the one that the append continues from."""

    code = "position_moved"


class PositionMissing(BadRequest):
    """An append of a producer that has a position names none."""

    code = "position_missing"


class PathBlocked(Conflict):
    """The path belongs to a soft-deleted stream that forks still read (§4.2)."""

    code = "path_blocked"


class SourceNotFound(NotFound):
    """The stream to fork from does not exist (§4.2)."""

    code = "source_not_found"


class SourceDeleted(Conflict):
    """The stream to fork from is soft-deleted (§4.2)."""

    code = "source_deleted"


class ForkTooDeep(Conflict):
    """The chain of forks would be longer than the server allows."""

    code = "fork_too_deep"


class EpochMustStartAtZero(BadRequest):
    """A producer opened a new epoch with another sequence than 0 (§5.2.1)."""

    code = "epoch_must_start_at_zero"


class StaleEpoch(ProtocolError):
    """The producer was fenced by a newer epoch (§5.2.1)."""

    status = 403
    code = "stale_epoch"


class SequenceGap(Conflict):
    """Producer-Seq skips numbers: an earlier append is missing (§5.2.1)."""

    code = "sequence_gap"
