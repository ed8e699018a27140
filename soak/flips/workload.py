"""The workload: a store with some of everything, and the ledger of what it has acknowledged.

Streams of bytes and of JSON, batches, producers, forks, snapshots, retention cuts, deletions and new streams of the
same name, messages larger than a chunk, closed streams. The sizes of the store are so small that its journal, rows,
segments and blobs all hold something.
"""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import ParamSpec, TypeVar

import lmdb
from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol import (
    JSON,
    Change,
    Claim,
    Drop,
    Fork,
    Head,
    Identity,
    Kept,
    Producer,
    Retention,
    Snapshot,
    Write,
)
from everbrook.storage import (
    ACID,
    FILE_DURABLE,
    FILE_FAST,
    DurableStorage,
    JournalTuning,
    OsDisk,
    StorageTuning,
    StoreError,
)
from everbrook.storage.check import BackgroundWalk, WalkedOpening
from everbrook.storage.check.base_walk import WALKED
from everbrook.storage.lmdb_base import open_environment
from everbrook.storage.manifest import BASE
from soak.flips.ledger import Ledger, State, Stream, written

Given = ParamSpec("Given")
Result = TypeVar("Result")

MODES = {"acid": ACID, "file-durable": FILE_DURABLE, "file-fast": FILE_FAST}
CLOSED, SEALED, UNSEALED = "closed", "sealed", "unsealed"
BOOT = "one run of the machine"
NOW = 1_800_000_000_000
CHANGES = 110
MIN_STREAMS = 5
TUNINGS = (
    StorageTuning(
        checkpoint_bytes=24_000,
        chunk_bytes=20_000,
        small_chunk_bytes=3_000,
        segment_bytes=64_000,
        max_open_segments=4,
        journal=JournalTuning(first_file_bytes=1 << 13, max_file_bytes=1 << 15),
    ),
    StorageTuning(
        checkpoint_bytes=3_000,
        chunk_bytes=1_200,
        small_chunk_bytes=300,
        segment_bytes=4_000,
        max_open_segments=4,
        journal=JournalTuning(first_file_bytes=1 << 12, max_file_bytes=1 << 14),
    ),
)


class Immediate(Executor):
    """Does what it is given at once, in the thread that gives it: the same store comes of the same seed."""

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)
        return future


class StoreImage(Struct):
    """A store that has ended, as its files are, and what it had acknowledged."""

    folder: Path
    older: Path
    """The files as they were at an earlier moment."""
    mode: str
    ending: str
    tuning: StorageTuning
    ledger: Ledger


def open_store(folder: Path, mode: str, tuning: StorageTuning, *, walked: bool = False) -> DurableStorage:
    """Open a store. `walked`: as a server does, which walks the tree of LMDB. This waits for the end of the walk."""
    walks: list[BackgroundWalk] = []
    opening = WalkedOpening(BOOT)

    def begin_walk(base: Path, env: lmdb.Environment) -> BackgroundWalk | None:
        walk = opening.walk(base, env)
        walks.extend([walk] if walk else [])
        return walk

    storage = DurableStorage(
        OsDisk(),
        folder,
        MODES[mode],
        salt=7,
        boot=BOOT,
        tuning=tuning,
        executor=Immediate(),
        open_environment=opening.open if walked else open_environment,
        begin_walk=begin_walk if walked else None,
    )
    for process in filter(None, (walk.process for walk in walks)):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    if problem := storage.verify():
        storage.close()
        raise StoreError(problem)
    return storage


def make_image(folder: Path, mode: str, random: Random) -> StoreImage:
    """Make a store in a folder, let it do its work, and end it: by a close, or as a kill leaves it."""
    ending = random.choice((CLOSED, SEALED, UNSEALED))
    workload = Workload(folder, mode, random.choice(TUNINGS), random)
    image = StoreImage(folder / "image", folder / "older", mode, ending, workload.tuning, workload.ledger)
    older_at = random.randrange(CHANGES // 2, CHANGES)
    while workload.ledger.last < CHANGES:
        workload.work()
        if workload.ledger.last >= older_at and not image.older.exists():
            shutil.copytree(workload.folder, image.older)
    workload.end(ending, image.folder)
    return image


class Workload:
    """A store at work."""

    def __init__(self, folder: Path, mode: str, tuning: StorageTuning, random: Random) -> None:
        self._folder = folder
        self._mode = mode
        self._random = random
        self._runs = 0
        self._numbers = random.randrange(1, 1 << 40)
        self.tuning = tuning
        self.folder = folder / "run-0"
        self.ledger = Ledger()
        self._storage = open_store(self.folder, mode, tuning)

    def work(self) -> None:
        """Commit one group, and now and then end the process."""
        if self._happens(0.02):
            self._storage.close()
            self._storage = open_store(self.folder, self._mode, self.tuning)
        if self._happens(0.02):
            self._killed()
        self._commit(self._random.choice((1, 1, 1, 2, 3)))
        if self._happens(0.3):
            self._storage.seal()

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def end(self, ending: str, image: Path) -> None:
        """End the store, and keep its files in another folder."""
        self._commit(self._random.choice((1, 2)))
        if ending == CLOSED:
            self._storage.close()
            shutil.move(self.folder, image)
            return
        if ending == SEALED:
            self._storage.seal()
        shutil.copytree(self.folder, image)
        if self._happens(0.5):
            (image / BASE / WALKED).write_text(BOOT)
        self._storage.close()
        shutil.rmtree(self.folder)

    def _killed(self) -> None:
        """End the process without a close: what it leaves goes on elsewhere."""
        self._runs += 1
        before, self.folder = self.folder, self._folder / f"run-{self._runs}"
        shutil.copytree(before, self.folder)
        self._storage.close()
        shutil.rmtree(before)
        self._storage = open_store(self.folder, self._mode, self.tuning)

    def _commit(self, changes: int) -> None:
        self.ledger.group = self.ledger.last + 1
        before = self.ledger.state
        group: list[Change] = []
        for _ in range(changes):
            group.append(self._change(self.ledger.state))
            self.ledger.take(group[-1])
        self._storage.persist(group)
        self._storage.apply(group)
        for change in group:
            for edit in change:
                self._give_back(edit, before.get(edit.head.identity.name))

    def _give_back(self, edit: Write | Drop, before: Stream | None) -> None:
        """Do what an engine does after a change: give space back, and remove blobs that nobody needs."""
        incarnation = edit.head.identity.incarnation
        if isinstance(edit, Write) and edit.cut:
            self._storage.discard(incarnation)
        snapshot = before.head.kept.snapshot if before and before.incarnation == incarnation else None
        if snapshot and snapshot.blob and not self._storage.keeps(snapshot.owner, snapshot.blob):
            self._storage.blobs.remove(snapshot.owner, snapshot.blob)

    # Changes

    def _change(self, state: State) -> Change:
        open_streams = [stream for stream in state.values() if not stream.head.closed and not stream.head.deleted]
        if len(open_streams) < MIN_STREAMS or self._happens(0.08):
            return (self._created(b"%s/%d" % (self._random.choice((b"a", b"b", b"long-name")), len(state)), state),)
        stream = self._random.choice(open_streams)
        if self._happens(0.05):
            return self._dropped(stream, state)
        if self._happens(0.1):
            return (self._cut(stream),)
        if self._happens(0.08):
            other = self._random.choice([each for each in open_streams if each is not stream])
            return self._write(stream), self._write(other)
        return (self._write(stream),)

    def _number(self) -> int:
        self._numbers += self._random.randrange(1, 1 << 20)
        return self._numbers

    def _created(self, name: bytes, state: State) -> Write:
        random = self._random
        while name in state:
            name += b"-"
        content_type = random.choice((JSON, b"text/plain", b"application/octet-stream"))
        source = random.choice([*state.values(), None]) if self._happens(0.4) else None
        fork = None
        if source:
            offset = random.choice([each for each in (source.first, *source.ends) if each >= source.retained])
            fork = Fork(source.head.identity.name, source.incarnation, offset, kept=source.head.kept)
            content_type = source.head.identity.content_type
        identity = Identity(
            name,
            self._number(),
            content_type,
            content_type,
            NOW,
            ttl_secs=random.choice((None, None, 3600)),
            fork=fork,
            retention=random.choice((None, None, None, Retention(max_messages=10))),
        )
        head = Head(identity, identity.first_own_offset, NOW, kept=identity.first_kept)
        return written(None, head, *self._messages(head))

    def _dropped(self, stream: Stream, state: State) -> Change:
        """Drop a stream, or let its name pass to a new one in the same change. One with forks is deleted later."""
        if self.ledger.forks(state, stream.incarnation):
            return (written(stream, replace(stream.head, deleted=True)),)
        drop = Drop(stream.head)
        if self._happens(0.5):
            return (drop,)
        others = {name: each for name, each in state.items() if each is not stream}
        return drop, self._created(stream.head.identity.name, others)

    def _cut(self, stream: Stream) -> Write:
        """Publish a snapshot, and retain what is from an offset on."""
        random = self._random
        offsets = [each for each in (stream.first, *stream.ends) if each >= stream.head.kept.earliest]
        earliest = random.choice(offsets) if offsets else stream.head.kept.earliest
        if self._happens(0.3):
            return self._cut_to(stream, earliest, Snapshot(earliest, NOW))
        content = random.randbytes(random.choice((0, 10, 700, 9_000)))
        number = self._number()
        blob = self._storage.blobs.begin(stream.incarnation, number)
        blob.write(content)
        blob.finish()
        digest = sha256(content).digest()
        snapshot = Snapshot(earliest, NOW, b"text/plain", len(content), digest, stream.incarnation, number)
        return self._cut_to(stream, earliest, snapshot)

    def _cut_to(self, stream: Stream, earliest: int, snapshot: Snapshot) -> Write:
        return Write(replace(stream.head, kept=Kept(earliest, snapshot)), cut=True)

    def _write(self, stream: Stream) -> Write:
        random, head = self._random, stream.head
        producer = None
        forgotten: tuple[bytes, ...] = ()
        if self._happens(0.4):
            producer_id = random.choice((b"p", b"q", b"a-rather-long-producer-id"))
            known = stream.producers.get(producer_id)
            state = Producer(known.epoch, known.seq + 1, NOW + known.seq) if known else Producer(1, 0, NOW)
            producer = (producer_id, state)
            if self._happens(0.1):
                forgotten = tuple(each for each in stream.producers if each != producer_id)
        if self._happens(0.2):
            head = replace(head, stream_seq=b"%08d" % head.tail)
        if self._happens(0.05):
            head = replace(head, closed=True, closed_by=Claim(b"p", 1, 2) if producer else None)
        return written(stream, head, *self._messages(head), producer=producer, forgotten=forgotten)

    def _messages(self, head: Head) -> list[bytes]:
        random = self._random
        count = random.choice((0, 1, 2, 5)) if head.identity.json else random.choice((0, 1, 1, 1))
        chunk = self.tuning.chunk_bytes
        sizes = (3, 20, 100, 100, chunk // 12, chunk // 4) if self._happens(0.96) else (chunk, chunk + 1, 2 * chunk)
        return [random.randbytes(max(1, random.choice(sizes))) for _ in range(count)]
