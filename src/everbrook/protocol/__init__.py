"""The rules of the specification, as values and pure functions.

Nothing here waits, reads a clock, draws a random number or touches a socket or a file: time and randomness are
arguments, so every decision replays.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.protocol.commands import (
        Append as Append,
        Appended as Appended,
        Closed as Closed,
        Command as Command,
        Create as Create,
        CreateBucket as CreateBucket,
        Created as Created,
        Cut as Cut,
        Delete as Delete,
        DeleteBucket as DeleteBucket,
        Deleted as Deleted,
        DeleteSnapshot as DeleteSnapshot,
        Duplicate as Duplicate,
        Existing as Existing,
        Expire as Expire,
        ForkFrom as ForkFrom,
        Outcome as Outcome,
        PublishSnapshot as PublishSnapshot,
        Retain as Retain,
        Trim as Trim,
        Untouched as Untouched,
    )
    from everbrook.protocol.content_type import JSON as JSON
    from everbrook.protocol.entities import (
        State as State,
        format_snapshot as format_snapshot,
        parse_snapshot as parse_snapshot,
    )
    from everbrook.protocol.frames import Frames as Frames
    from everbrook.protocol.json_mode import (
        Split as Split,
        join_messages as join_messages,
        pack_messages as pack_messages,
    )
    from everbrook.protocol.offset import Sentinel as Sentinel, format_offset as format_offset
    from everbrook.protocol.path import (
        REGISTRY as REGISTRY,
        STREAM_ROOT as STREAM_ROOT,
        bucket_of as bucket_of,
        bucket_prefix as bucket_prefix,
        bucket_record as bucket_record,
    )
    from everbrook.protocol.query import ReadQuery as ReadQuery
    from everbrook.protocol.sse import (
        KEEP_ALIVE as KEEP_ALIVE,
        Control as Control,
        Decoder as Decoder,
        Event as Event,
        encode_base64 as encode_base64,
        encode_event as encode_event,
    )
    from everbrook.protocol.state import (
        WHOLE as WHOLE,
        Change as Change,
        Claim as Claim,
        Drop as Drop,
        Edit as Edit,
        Fork as Fork,
        Head as Head,
        Identity as Identity,
        Kept as Kept,
        Producer as Producer,
        Retention as Retention,
        Snapshot as Snapshot,
        Write as Write,
    )
    from everbrook.protocol.state_changes import (
        SnapshotEnd as SnapshotEnd,
        SnapshotStart as SnapshotStart,
        StateMessage as StateMessage,
        parse_message as parse_message,
    )

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".commands": (
            "Append Appended Closed Command Create CreateBucket Created Cut Delete DeleteBucket DeleteSnapshot Deleted "
            "Duplicate Existing Expire ForkFrom Outcome PublishSnapshot Retain Trim Untouched"
        ),
        ".content_type": "JSON",
        ".entities": "State format_snapshot parse_snapshot",
        ".frames": "Frames",
        ".json_mode": "Split join_messages pack_messages",
        ".offset": "Sentinel format_offset",
        ".path": "REGISTRY STREAM_ROOT bucket_of bucket_prefix bucket_record",
        ".query": "ReadQuery",
        ".sse": "Control Decoder Event KEEP_ALIVE encode_base64 encode_event",
        ".state": "Change Claim Drop Edit Fork Head Identity Kept Producer Retention Snapshot WHOLE Write",
        ".state_changes": "SnapshotEnd SnapshotStart StateMessage parse_message",
    },
)
