"""The rules of the specification, as values and pure functions.

Nothing here waits, reads a clock, draws a random number or touches a socket or a file: time and randomness are
arguments, so every decision replays.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.protocol.change import Change as Change, Drop as Drop, Edit as Edit, Write as Write
    from everbrook.protocol.commands import (
        Append as Append,
        Command as Command,
        Create as Create,
        CreateBucket as CreateBucket,
        Delete as Delete,
        DeleteBucket as DeleteBucket,
        DeleteSnapshot as DeleteSnapshot,
        Expire as Expire,
        ForkFrom as ForkFrom,
        PublishSnapshot as PublishSnapshot,
        Retain as Retain,
        Trim as Trim,
    )
    from everbrook.protocol.content_type import JSON as JSON
    from everbrook.protocol.control import Control as Control
    from everbrook.protocol.dialects import (
        SnapshotEnd as SnapshotEnd,
        SnapshotStart as SnapshotStart,
        StateMessage as StateMessage,
        parse_message as parse_message,
    )
    from everbrook.protocol.folding import (
        State as State,
        format_snapshot as format_snapshot,
        parse_snapshot as parse_snapshot,
    )
    from everbrook.protocol.frames import Frames as Frames
    from everbrook.protocol.json_mode import join_messages as join_messages, pack_messages as pack_messages
    from everbrook.protocol.offset import Sentinel as Sentinel, format_offset as format_offset
    from everbrook.protocol.outcomes import (
        Appended as Appended,
        Closed as Closed,
        Created as Created,
        Cut as Cut,
        Deleted as Deleted,
        Duplicate as Duplicate,
        Existing as Existing,
        Outcome as Outcome,
        Untouched as Untouched,
    )
    from everbrook.protocol.path import (
        REGISTRY as REGISTRY,
        STREAM_ROOT as STREAM_ROOT,
        bucket_of as bucket_of,
        bucket_prefix as bucket_prefix,
        bucket_record as bucket_record,
    )
    from everbrook.protocol.query import ReadQuery as ReadQuery
    from everbrook.protocol.split import Split as Split
    from everbrook.protocol.sse import (
        KEEP_ALIVE as KEEP_ALIVE,
        Decoder as Decoder,
        Event as Event,
        encode_base64 as encode_base64,
        encode_event as encode_event,
    )
    from everbrook.protocol.state import (
        WHOLE as WHOLE,
        Claim as Claim,
        Fork as Fork,
        Head as Head,
        Identity as Identity,
        Kept as Kept,
        Producer as Producer,
        Retention as Retention,
        Snapshot as Snapshot,
    )

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".change": "Change Drop Edit Write",
        ".commands": (
            "Append Command Create CreateBucket Delete DeleteBucket DeleteSnapshot Expire ForkFrom "
            "PublishSnapshot Retain Trim"
        ),
        ".content_type": "JSON",
        ".control": "Control",
        ".dialects": "SnapshotEnd SnapshotStart StateMessage parse_message",
        ".folding": "State format_snapshot parse_snapshot",
        ".frames": "Frames",
        ".json_mode": "join_messages pack_messages",
        ".offset": "Sentinel format_offset",
        ".outcomes": "Appended Closed Created Cut Deleted Duplicate Existing Outcome Untouched",
        ".path": "REGISTRY STREAM_ROOT bucket_of bucket_prefix bucket_record",
        ".query": "ReadQuery",
        ".split": "Split",
        ".sse": "Decoder Event KEEP_ALIVE encode_base64 encode_event",
        ".state": "Claim Fork Head Identity Kept Producer Retention Snapshot WHOLE",
    },
)
