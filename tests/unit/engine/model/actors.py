"""Those who deal with the engine: readers that follow a stream, and answers that wait."""

from collections.abc import Callable

from everbrook.engine import Batch, Engine, Stream
from everbrook.protocol.errors import Unavailable
from tests.kit.fakes import RecordingReader


class Follower(RecordingReader):
    """A reader that stays until the stream is closed or ended."""

    def __init__(
        self, engine: Engine, stream: Stream, since: int, when_it_leaves: Callable[["Follower"], None]
    ) -> None:
        super().__init__()
        self._when_it_leaves = when_it_leaves
        self.engine = engine
        self.stream = stream
        self.since = since
        self.start = stream.committed.tail
        self.incarnation = stream.committed.identity.incarnation
        self.here = True

    def deliver(self, batch: Batch) -> None:
        super().deliver(batch)
        if batch.page.final:
            self.leave()

    @property
    def follows(self) -> bool:
        return self.here and not self.errors

    def leave(self) -> None:
        self.engine.readers.leave(self.stream, self)
        if self.follows:
            self.here = False
            self._when_it_leaves(self)
        self.here = False


class Answer:
    """An answer that waits for what it rests on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: list[Unavailable | None] = []
        self.refused = False
