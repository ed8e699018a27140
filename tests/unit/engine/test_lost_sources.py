"""A fork whose source was lost: it is damaged, and never shows the bytes of another stream of that name."""

import pytest

from everbrook.engine.faults import Faults
from everbrook.engine.limits import Limits
from everbrook.engine.streams import Streams
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import MemoryStorage
from tests.kit.drafts import Draft
from tests.kit.fakes import Bystander, FakeClock, FakeScheduler


def streams_without_the_source(*instead: Draft) -> Streams:
    storage, source = MemoryStorage(), Draft(b"source", 1)
    first = source.write(b"one")
    fork = Draft(b"fork", 2, source=source, offset=3).write(b"x")
    storage.apply([(first,), (fork,), (source.drop(),), *((other.write(b"secret"),) for other in instead)])
    return Streams(storage, FakeClock(), Limits(), Bystander(), Faults(FakeClock(), FakeScheduler(FakeClock())))


def test_a_fork_whose_source_is_gone_is_damaged() -> None:
    with pytest.raises(StreamDamaged):
        streams_without_the_source().stream(b"fork")


def test_another_stream_of_the_sources_name_is_not_its_source() -> None:
    with pytest.raises(StreamDamaged):
        streams_without_the_source(Draft(b"source", 3)).stream(b"fork")


def test_a_source_of_another_incarnation_that_is_in_memory_is_not_taken_either() -> None:
    streams = streams_without_the_source(Draft(b"source", 3))
    assert streams.stream(b"source") is not None
    with pytest.raises(StreamDamaged):
        streams.stream(b"fork")
