"""Folding changes, page by page, to a state. Messages that are none are refused with their stream, or left out."""

from collections.abc import Iterator

from everbrook.client.content import Kind, kind_of
from everbrook.client.models import Snapshot
from everbrook.protocol.frames import Frames
from everbrook.protocol.state_changes import InvalidChange
from everbrook.spark.folds.dead_letters import Letters, Skipped
from everbrook.spark.folds.reports import Refused
from everbrook.spark.folds.state import FoldedState, decode_messages
from everbrook.spark.positions import offset_of


class Changes:
    """The state of one stream while it is folded, and what was left out of it."""

    def __init__(self, *, skip_invalid: bool) -> None:
        self.state = FoldedState()
        self.letters = Letters()
        self._skip_invalid = skip_invalid

    def begin(self, snapshot: Snapshot | None) -> None:
        """Begin with a snapshot, if there is one. One that is no state is somebody's own, and stays."""
        if snapshot is None or not snapshot.data:
            return
        if kind_of(snapshot.content_type) is not Kind.JSON:
            raise Refused(f"its snapshot at {snapshot.offset} is no state of changes: it is {snapshot.content_type}")
        try:
            self.state.restore(snapshot.data)
        except InvalidChange as error:
            raise Refused(f"its snapshot at {snapshot.offset} is no state of changes: {error}") from error

    def take(self, pages: Iterator[Frames]) -> None:
        """Apply pages in their order."""
        for page in pages:
            if not page.trailer:
                raise Refused("it is no stream of JSON, so that it has no changes; a function may fold it")
            messages = decode_messages(page.data[: -page.trailer])

            def refuse(number: int, error: InvalidChange, page: Frames = page) -> None:
                self._refuse(page, number, error)

            self.state.take(messages, refuse)

    def _refuse(self, page: Frames, number: int, error: InvalidChange) -> None:
        start = page.ends[number - 1] if number else page.first
        if not self._skip_invalid:
            raise Refused(f"the message at {offset_of(start)} is no change: {error}") from error
        payload = page.data[start - page.first : page.ends[number] - page.first - page.trailer]
        self.letters.add(Skipped(offset_of(start), str(error), payload))
