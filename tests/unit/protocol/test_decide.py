"""The one place that says no."""

import pytest

from everbrook.protocol import (
    Append,
    Appended,
    Command,
    Create,
    CreateBucket,
    Created,
    Cut,
    Delete,
    DeleteBucket,
    Deleted,
    DeleteSnapshot,
    Expire,
    Outcome,
    PublishSnapshot,
    Retain,
    Retention,
    Trim,
    Untouched,
)
from everbrook.protocol.decide import decide
from tests.kit.views import NOW, TEXT, Streams

COMMANDS: list[tuple[Command, type[Outcome]]] = [
    (Create(b"new", NOW, 9), Created),
    (Append(b"s", NOW, TEXT, b"x"), Appended),
    (Delete(b"s", NOW), Deleted),
    (Expire(b"s", NOW), Untouched),
    (PublishSnapshot(b"s", NOW, 4, TEXT, 1, 9), Cut),
    (DeleteSnapshot(b"s", NOW, 4), Cut),
    (Retain(b"s", NOW, 4), Cut),
    (Trim(b"s", NOW), Cut),
    (CreateBucket(b"others", NOW, 9), Created),
    (DeleteBucket(b"agents", NOW), Deleted),
]


def streams_to_command() -> Streams:
    """A stream with a snapshot and more than its policy allows, and a bucket."""
    streams = Streams()
    streams.hold(b"s", b"data", b"more", retention=Retention(max_messages=1))
    streams.publish(b"s", 4, keep_history=True)
    streams.bucket(b"agents")
    return streams


@pytest.mark.parametrize("command, outcome", COMMANDS)
def test_each_command_meets_its_rule(command: Command, outcome: type[Outcome]) -> None:
    streams = streams_to_command()

    assert isinstance(decide(streams, command).outcome, outcome)


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS])
def test_a_decision_changes_nothing_and_so_can_be_replayed(command: Command) -> None:
    streams = streams_to_command()
    before = {name: stream.head for name, stream in streams.kept.items()}

    assert decide(streams, command) == decide(streams, command)
    assert {name: stream.head for name, stream in streams.kept.items()} == before
