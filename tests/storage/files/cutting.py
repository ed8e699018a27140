"""Streams of many small segments, cut, and seen to have what they retain."""

from pathlib import Path

from everbrook.protocol import Producer
from everbrook.storage import Record
from everbrook.storage.files.logs import Logs
from tests.storage.drafts import Draft
from tests.storage.files.disks import WatchedDisk
from tests.storage.files.opening import HeldFiles, commit, finish_removals, numbers, open_files

SEGMENT_BYTES = 300


def open_small(folder: Path, disk: WatchedDisk | None = None, *, durable: bool = True) -> HeldFiles:
    return open_files(folder, disk, durable=durable, segment_bytes=SEGMENT_BYTES)


def fill(storage: HeldFiles, stream: Draft, appends: int = 12) -> None:
    for number in range(appends):
        messages = [b"%d:%d," % (number, part) for part in range(9)]
        commit(storage, (stream.write(*messages, producer=(b"p", Producer(0, number, number))),))


def cut(storage: HeldFiles, stream: Draft, earliest: int) -> None:
    """Let a stream retain what is from an offset on, and remove the rest."""
    commit(storage, (stream.cut(earliest),))
    storage.discard(stream.incarnation)
    finish_removals(storage)


def starts(storage: HeldFiles, incarnation: int) -> list[int]:
    """Give where the segments of a stream begin."""
    logs, found = Logs(storage.disk, storage.layout), numbers(storage.folder, incarnation)
    logs.locate(incarnation, found)
    log = logs.open(incarnation)
    return [logs.start(incarnation, log, number) for number in range(found[0], log.segment + 1)]


def verify(storage: HeldFiles, stream: Draft, floor: int) -> None:
    """See that everything of a stream from an offset on is there."""
    tail = stream.head.tail
    assert storage.load(stream.name) == Record(stream.head, stream.producers)
    assert storage.read(stream.incarnation, floor, tail) == stream.data[floor - stream.first :]
    kept = [end for end in stream.boundaries if end >= floor]
    assert [storage.boundary_at_or_before(stream.incarnation, end) for end in kept] == kept
    assert [storage.boundary_after(stream.incarnation, end) for end in kept[:-1]] == kept[1:]
    found = storage.messages(stream.incarnation, floor, tail)
    assert (list(found.ends), list(found.times)) == (kept[1:], stream.times[len(stream.times) - len(kept) + 1 :])
    assert storage.seek(stream.incarnation, floor, len(kept) - 1) == (tail, 0)
    assert storage.seek(stream.incarnation, tail, 1 - len(kept)) == (floor, 0)
