"""The memory engine: what streams take is counted, told beforehand, and given back."""

import pytest

from everbrook.engine import MAX_COST_BYTES, MAX_COST_RATIO
from everbrook.protocol import Producer, Write
from everbrook.storage import MemoryStorage
from tests.kit.drafts import Draft

PRODUCER = (b"p", Producer(0, 0, 1))


@pytest.fixture
def memory() -> MemoryStorage:
    return MemoryStorage()


def test_nothing_takes_nothing(memory: MemoryStorage) -> None:
    assert memory.used_bytes == 0


def test_data_is_counted_as_used(memory: MemoryStorage) -> None:
    stream = Draft(b"a", 1)
    memory.apply([(stream.write(),)])
    before = memory.used_bytes
    memory.apply([(stream.write(b"x" * 10_000),)])
    assert before + 10_000 <= memory.used_bytes <= before + 10_100


def test_dropping_frees_what_was_used(memory: MemoryStorage) -> None:
    stream = Draft(b"a", 1, json=True)
    memory.apply([(stream.write(b"1,", b"2,"),), (stream.write(b"3,", producer=PRODUCER),)])
    assert memory.used_bytes > 6
    memory.apply([(stream.drop(),)])
    assert memory.used_bytes == 0


def test_forgetting_a_producer_frees_what_it_took(memory: MemoryStorage) -> None:
    stream = Draft(b"a", 1)
    memory.apply([(stream.write(),)])
    before = memory.used_bytes
    memory.apply([(stream.write(producer=PRODUCER),)])
    assert memory.used_bytes > before
    memory.apply([(stream.write(forgotten=(b"p",)),)])
    assert memory.used_bytes == before


def test_a_write_takes_no_more_than_it_was_said_to_cost(memory: MemoryStorage) -> None:
    stream = Draft(b"a", 1, json=True)
    for write in (stream.write(), stream.write(b"1,", producer=PRODUCER), stream.write(*[b"2,"] * 1000)):
        allowed = memory.used_bytes + memory.cost_bytes(write)
        memory.apply([(write,)])
        assert memory.used_bytes <= allowed


def test_the_cost_of_a_write_is_known_before_its_stream_is_there(memory: MemoryStorage) -> None:
    stream = Draft(b"a", 1)
    created, produced = stream.write(), stream.write(b"1", producer=PRODUCER)
    assert memory.cost_bytes(created) > memory.cost_bytes(produced) > memory.cost_bytes(Write(stream.head)) == 0


def test_no_write_costs_more_than_the_limits_reckon_with(memory: MemoryStorage) -> None:
    """Far from the limit nobody asks what a write costs exactly."""
    stream = Draft(b"a", 1, json=True)
    for write in (stream.write(b"1,"), stream.write(b"1,", producer=PRODUCER), stream.write(*[b"1,"] * 1000)):
        assert memory.cost_bytes(write) <= MAX_COST_RATIO * len(write.data) + MAX_COST_BYTES


def test_a_write_that_brings_nothing_costs_nothing(memory: MemoryStorage) -> None:
    stream = Draft(b"a", 1)
    memory.apply([(stream.write(b"1"),), (stream.write(b"2", producer=PRODUCER),)])
    assert memory.cost_bytes(stream.write(closed=True)) == 0
    assert memory.cost_bytes(stream.write(producer=PRODUCER)) == 0


def test_memory_has_nothing_to_wait_for_and_nothing_that_is_not_in_memory(memory: MemoryStorage) -> None:
    memory.apply([(Draft(b"a", 1, ttl_secs=1).write(),)])
    assert not memory.blocking
    assert memory.mortal(0, 100) == []
