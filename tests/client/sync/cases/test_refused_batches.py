# Written by tools/mirror.py from tests/client/async_/cases/test_refused_batches.py: change that file, not this one.
"""A batch that is refused ends its producer: those behind it can't arrive, so they are not sent for ever."""

import pytest

from everbrook.client._sync.concurrency import sleep
from everbrook.client._sync.producer import Producer
from everbrook.client._sync.stream import Stream
from everbrook.protocol.errors import PayloadTooLarge
from tests.kit.faults.kinds import Reply
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer


def refused(proxy: Proxy, shaky: Stream[object]) -> Producer[object]:
    """A producer whose second batch is refused, with others behind it."""
    producer = shaky.producer(max_batch_items=1, linger_secs=0)
    producer.append(0)
    producer.flush()
    proxy.arm(Reply(413, {}, b"too large"), method="POST")
    for number in range(1, 6):
        producer.append(number)
    return producer


def test_a_refusal_is_told_by_everything_that_follows(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    producer = refused(proxy, shaky)
    with pytest.raises(PayloadTooLarge):
        producer.flush()
    with pytest.raises(PayloadTooLarge):
        producer.append(6)
    with pytest.raises(PayloadTooLarge):
        producer.close()


def test_nothing_more_is_asked_after_a_refusal(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    producer = refused(proxy, shaky)
    with pytest.raises(PayloadTooLarge):
        producer.flush()
    sleep(0.3)
    asked = len(proxy.requests)
    sleep(0.3)
    arrived = writer.messages()
    assert len(proxy.requests) == asked
    assert arrived in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4])  # whichever came first was refused
