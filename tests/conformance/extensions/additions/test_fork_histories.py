"""Random histories of several streams that fork, publish, cut and end: each answers as its own history says."""

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from tests.conformance.extensions.additions.frames import parse_frames
from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.streams import Namespace, Stream, fresh_name
from tests.conformance.extensions.test_histories import few

pytestmark = pytest.mark.extension("retention")


class Append(Struct, frozen=True):
    line: int
    message: bytes


class Publish(Struct, frozen=True):
    line: int
    place: int
    blob: bytes
    keep: bool


class Retain(Struct, frozen=True):
    line: int
    place: int


class Fork(Struct, frozen=True):
    line: int
    place: int


class Delete(Struct, frozen=True):
    line: int


Step = Append | Publish | Retain | Fork | Delete
Lines, Places, Payload = st.integers(0, 5), st.integers(0, 8), st.binary(min_size=1, max_size=6)
Steps = st.lists(
    st.builds(Append, Lines, Payload)
    | st.builds(Append, Lines, Payload)  # twice as often as the others, or there is little to cut
    | st.builds(Publish, Lines, Places, Payload, st.booleans())
    | st.builds(Retain, Lines, Places)
    | st.builds(Fork, Lines, Places)
    | st.builds(Delete, Lines),
    min_size=4,
    max_size=24,
)


class Line:
    """What one stream must hold. Places count messages: place 2 is the offset after the second one."""

    def __init__(self, stream: Stream, offsets: list[str], messages: list[bytes]) -> None:
        self.stream = stream
        self.offsets = offsets
        self.messages = messages
        self.earliest = 0
        self.snapshot: tuple[int, bytes] | None = None

    def append(self, message: bytes) -> None:
        self.offsets.append(self.stream.append(message))
        self.messages.append(message)

    def publish(self, place: int, blob: bytes, *, keep: bool) -> None:
        headers = {"stream_snapshot_history": "keep"} if keep else {}
        status = self.stream.publish(self.offsets[place], blob, **headers).status
        if place < self.earliest:
            assert status == 410
        elif self.snapshot and place < self.snapshot[0]:
            assert status == 409
        else:
            assert status == 204
            self.snapshot = (place, blob)
            self.earliest = self.earliest if keep else place

    def retain(self, place: int) -> None:
        status = self.stream.retain(self.offsets[place]).status
        if place < self.earliest:
            assert status == 410
        elif place > max(self.earliest, self.snapshot[0] if self.snapshot else 0):
            assert status == 409
        else:
            assert status == 204
            self.earliest = place

    def fork(self, place: int, target: Stream) -> "Line | None":
        """Fork, and give the new line if there is one."""
        status = target.put(stream_forked_from=self.stream.path, stream_fork_offset=self.offsets[place]).status
        if place < self.earliest:
            assert status == 410
            return None
        inherited = self.snapshot if self.snapshot and self.snapshot[0] <= place else None
        if self.earliest and not inherited:
            assert status == 409
            return None
        assert status == 201
        forked = Line(target, self.offsets[: place + 1], self.messages[:place])
        forked.earliest, forked.snapshot = self.earliest, inherited
        target.content_type = self.stream.content_type
        return forked

    def check(self) -> None:
        """Hold every way to read the stream to its history."""
        for place, offset in enumerate(self.offsets):
            page = self.stream.read(offset=offset)
            gone = place < self.earliest
            assert (page.status, page.body if not gone else b"") == (
                (410, b"") if gone else (200, b"".join(self.messages[place:]))
            )
        framed = parse_frames(self.stream.read(offset=self.offsets[self.earliest], format="frames").body)
        assert [message.payload for message in framed] == self.messages[self.earliest :]
        self._check_bootstrap()

    def _check_bootstrap(self) -> None:
        place, blob = self.snapshot or (0, b"")
        answer = self.stream.bootstrap()
        bodies = [part.body for part in parse_bootstrap(answer.headers["content-type"], answer.body)]
        assert bodies == [blob, *self.messages[place:]]
        assert answer.headers["stream-snapshot-offset"] == (self.offsets[place] if self.snapshot else "-1")


class Family:
    """The streams of one history."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        first = namespace.fresh("application/octet-stream")
        self.lines = [Line(first, [first.tail], [])]

    def apply(self, step: Step) -> None:
        line = self.lines[step.line % len(self.lines)]
        match step:
            case Append():
                line.append(step.message)
            case Publish():
                line.publish(step.place % len(line.offsets), step.blob, keep=step.keep)
            case Retain():
                line.retain(step.place % len(line.offsets))
            case Fork():
                forked = line.fork(step.place % len(line.offsets), self._namespace.stream(fresh_name()))
                self.lines += [forked] if forked else []
            case Delete() if len(self.lines) > 1:
                assert line.stream.delete().status == 204
                self.lines.remove(line)


@few
@given(steps=Steps)
def test_streams_that_fork_and_are_cut_hold_what_their_histories_say(namespace: Namespace, steps: list[Step]) -> None:
    """Ours: what a fork inherited stays readable whatever the source publishes, cuts or ends later."""
    family = Family(namespace)
    for step in steps:
        family.apply(step)
    for line in family.lines:
        line.check()
