"""Questions to a store that was opened again, asked through the engine as a client's requests would be."""

from contextlib import suppress

from everbrook.engine import Engine
from everbrook.engine.limits import Limits
from everbrook.protocol import Append, Claim, Duplicate
from everbrook.protocol.errors import NotFound, OffsetGone, ProtocolError, StreamClosed, StreamGone
from everbrook.storage import DurableStorage
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.promises import Violation
from tests.crash.simulation.snapshot import Snapshot, revived
from tests.crash.simulation.workload import NAMES
from tests.kit.fakes import FakeClock, FakeScheduler
from tests.kit.views import KeptStream


def probe(machine: Machine, storage: DurableStorage, snapshot: Snapshot, now: int) -> None:
    """Ask for every stream: its bytes, those of its sources included, what repeats an append, and what ended it."""
    clock = FakeClock()
    clock.micros = now * 1000
    engine = machine.start_engine(storage, FakeScheduler(clock), clock, Limits())
    streams = revived(snapshot)
    for name in NAMES:
        stream = streams.kept.get(name)
        if stream is None or stream.head.deleted:
            _expect(engine, Append(name, now, b"text/plain", b"x"), StreamGone if stream else NotFound)
            continue
        _probe_bytes(engine, stream, now)
        for producer_id, producer in stream.producers.items():
            _probe_producer(engine, stream, Claim(producer_id, producer.epoch, producer.seq), now)
        if stream.head.closed:
            _expect(engine, Append(name, now, stream.head.identity.content_type, b"x"), StreamClosed)


def _probe_bytes(engine: Engine, stream: KeptStream, now: int) -> None:
    name, first = stream.head.identity.name, stream.head.kept.earliest
    found = engine.readers.open(name, now)
    read, expected = found.lineage.read(first, stream.head.tail), stream.stored[first:]
    if read != expected:
        raise Violation(f"{name!r} is read as {read[:40]!r}…, not {expected[:40]!r}…")
    if first:
        with suppress(OffsetGone):
            raise Violation(f"{name!r} is read from its beginning: {engine.readers.page(found, 0)}")


def _probe_producer(engine: Engine, stream: KeptStream, claim: Claim, now: int) -> None:
    """A retry of the last append of a producer is a duplicate, unless another one has closed the stream."""
    head = stream.head
    retry = Append(head.identity.name, now, head.identity.content_type, b"x", claim=claim)
    expected = StreamClosed if head.closed and head.closed_by != claim else Duplicate
    _expect(engine, retry, expected)


def _expect(engine: Engine, command: Append, expected: type[ProtocolError | Duplicate]) -> None:
    try:
        given: object = engine.execute(command)
    except ProtocolError as error:
        given = error
    if not isinstance(given, expected):
        raise Violation(f"{command} gives {given!r}, not {expected.__name__}")
