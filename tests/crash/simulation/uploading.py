"""Clients that upload snapshots through an engine, piece by piece, while other things happen, and may give up."""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from everbrook.engine import Engine
from everbrook.engine.blobs import Upload
from everbrook.protocol import Command, PublishSnapshot
from everbrook.protocol.errors import ProtocolError

CANCELLED = 0.03


class Uploads:
    """All snapshots that are on their way."""

    def __init__(self, engine: Engine, chance: Random, answer: Callable[[Command], None]) -> None:
        """Call `answer` when it is decided what becomes of a snapshot."""
        self._engine = engine
        self._chance = chance
        self._answer = answer
        self._arriving: list[tuple[Upload, PublishSnapshot, list[bytes]]] = []

    def begin(self, command: PublishSnapshot, pieces: list[bytes]) -> None:
        """Begin with one, unless it is refused at once."""
        self._arriving.append((self._engine.begin_snapshot(command), command, pieces))
        for _ in range(self._chance.choice((0, 1, 2 + len(pieces)))):
            self.step()

    def step(self) -> None:
        """Bring one of them a little further."""
        if not self._arriving:
            return
        upload, command, pieces = arriving = self._chance.choice(self._arriving)
        if self._chance.random() < CANCELLED:
            self._arriving.remove(arriving)
            upload.cancel()
        elif pieces:
            upload.write(pieces.pop())
        else:
            self._arriving.remove(arriving)
            upload.finish(lambda failure: self._publish(upload, command, failure))

    def _publish(self, upload: Upload, command: PublishSnapshot, failure: ProtocolError | None) -> None:
        """Publish what has arrived, or give it up."""
        try:
            if failure:
                raise failure
            self._engine.publish(upload, replace(command, now=self._engine.clock.now()))
        except ProtocolError:
            upload.cancel()
        self._answer(command)
