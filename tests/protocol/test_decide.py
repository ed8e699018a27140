"""The one place that says no."""

import pytest

from everbrook.protocol.commands import Append, Command, Create, Delete, Expire
from everbrook.protocol.decide import decide
from everbrook.protocol.outcomes import Appended, Created, Deleted, Outcome, Untouched
from tests.protocol.views import NOW, TEXT, Streams

COMMANDS: list[tuple[Command, type[Outcome]]] = [
    (Create(b"new", NOW, 9), Created),
    (Append(b"s", NOW, TEXT, b"x"), Appended),
    (Delete(b"s", NOW), Deleted),
    (Expire(b"s", NOW), Untouched),
]


@pytest.mark.parametrize("command, outcome", COMMANDS)
def test_each_command_meets_its_rule(command: Command, outcome: type[Outcome]) -> None:
    streams = Streams()
    streams.hold(b"s", b"data")

    assert isinstance(decide(streams, command).outcome, outcome)


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS])
def test_a_decision_changes_nothing_and_so_can_be_replayed(command: Command) -> None:
    streams = Streams()
    before = streams.hold(b"s", b"data").head

    assert decide(streams, command) == decide(streams, command)
    assert {name: stream.head for name, stream in streams.kept.items()} == {b"s": before}
