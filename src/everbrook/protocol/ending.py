"""The end of a stream: deletion, expiry, and the cascade up a chain of forks (§4.2, §5.4).

A stream that forks still read is soft-deleted. The last fork's end takes a soft-deleted source with it, and so on up
the chain, all in one change.
"""

from msgspec.structs import replace

from everbrook.protocol.change import Change, Drop, Edit, Write
from everbrook.protocol.commands import Delete, Expire
from everbrook.protocol.lifetime import ended, living_stream
from everbrook.protocol.outcomes import Decision, Deleted, Untouched
from everbrook.protocol.view import StreamView, View


def decide_delete(view: View, command: Delete) -> Decision:
    """Delete a stream on its owner's wish (§5.4)."""
    return Decision(Deleted(), end_of(view, living_stream(view, command.name, command.now)))


def decide_expire(view: View, command: Expire) -> Decision:
    """End a stream if its time has run out and nothing ended it before."""
    stream = view.stream(command.name)
    if stream is None or stream.head.deleted or not ended(stream.head, stream, command.now):
        return Decision(Untouched())
    return Decision(Deleted(), end_of(view, stream))


def end_of(view: View, stream: StreamView) -> Change:
    """Give the change that ends a stream: softly if forks read it, else with the sources that only it held."""
    if stream.fork_count:
        return (Write(replace(stream.head, deleted=True)),)
    edits: list[Edit] = [Drop(stream.head)]
    fork = stream.head.identity.fork
    while fork and (source := view.stream(fork.source)):
        if not source.head.deleted or source.fork_count > 1:
            break
        edits.append(Drop(source.head))
        fork = source.head.identity.fork
    return tuple(edits)
