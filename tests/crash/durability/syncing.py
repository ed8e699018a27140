"""`python syncing.py MODE FOLDER`: use a store, and say on the standard output what it has just promised.

Whoever traces the system calls of this process sees what came before each promise.
"""

import os
import sys
from pathlib import Path

from everbrook.protocol import Append, Change, Command, Create, PublishSnapshot
from everbrook.protocol.decide import decide
from everbrook.storage import ACID, FILE_DURABLE, FILE_FAST, DurableStorage, OsDisk, StorageTuning
from tests.kit.views import NOW, TEXT, Streams

MODES = {"acid": ACID, "file-durable": FILE_DURABLE, "file-fast": FILE_FAST}
BODY = b"b" * 700
# A checkpoint comes with the second append, and fills a segment.
TUNING = StorageTuning(checkpoint_bytes=1500, chunk_bytes=400, small_chunk_bytes=100)


def say(promise: str) -> None:
    """Write a line, past every buffer."""
    os.write(sys.stdout.fileno(), promise.encode() + b"\n")


class Traced:
    """A store whose promises are told."""

    def __init__(self, mode: str, folder: Path) -> None:
        self._streams = Streams()
        self._storage = DurableStorage(OsDisk(), folder, MODES[mode], salt=7, tuning=TUNING)
        say("opened")

    def commit(self, command: Command) -> None:
        """Make a change durable, and then visible."""
        change: Change = decide(self._streams, command).change
        self._streams.keep(change)
        say("persist")
        self._storage.persist([change])
        say("acknowledged")
        self._storage.apply([change])

    def publish(self) -> None:
        """Publish a snapshot: its bytes first."""
        say("blob")
        draft = self._storage.blobs.begin(1, 2)
        draft.write(b"snapshot")
        draft.finish()
        say("finished")
        self.commit(PublishSnapshot(b"a", NOW, 0, TEXT, 1, 2, 8, bytes(32)))

    def run(self) -> None:
        """Make every promise once."""
        self.commit(Create(b"a", NOW, 1, TEXT))
        self.publish()
        self.commit(Append(b"a", NOW, TEXT, BODY))
        say("seal")
        self._storage.seal()
        say("sealed")
        self.commit(Append(b"a", NOW, TEXT, BODY))
        while not self._storage.checkpoints.done:
            os.sched_yield()
        say("checkpoint done")


if __name__ == "__main__":
    Traced(sys.argv[1], Path(sys.argv[2])).run()
    os._exit(0)
