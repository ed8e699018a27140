# Written by tools/mirror.py from tests/client/async_/cases/test_broken_producers.py: change that file, not this one.
"""Producers over connections that break: every message is in the stream once, in order (§5.2.1)."""

from random import Random

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import Unreachable
from everbrook.client.retry import Retry
from everbrook.protocol.errors import ProtocolError, StaleEpoch, StreamClosed
from tests.kit.faults.exchange import Request
from tests.kit.faults.kinds import AnswerLost, CutAfter, Delayed, Fault, NeverSent, Reply, Sound, Stalled, Twice
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

FAULTS: list[Fault] = [
    NeverSent(),
    NeverSent(rudely=True),
    AnswerLost(),
    AnswerLost(rudely=True),
    Stalled(),
    Stalled(asked=True),
    Reply(500),
    Reply(502),
    Reply(503),
    Reply(504),
    Reply(429),
    Delayed(0.1),
    Delayed(0.05, AnswerLost()),
    Twice(),
]
NUMBERS = list(range(300))


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_each_message_arrives_once(writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault) -> None:
    writer.create("text/plain")
    proxy.arm(fault, method="POST")
    with shaky.producer() as producer:
        for word in ("one ", "two ", "three "):
            producer.append(word)
            producer.flush()
    assert writer.content() == b"one two three "


@pytest.mark.parametrize("fault", [AnswerLost(), Stalled(asked=True)], ids=repr)
def test_a_named_producer_outlives_a_lost_answer(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    writer.create("application/json")
    proxy.arm(fault, method="POST")
    with shaky.producer("me") as producer:
        producer.append(1)
        producer.flush()
        producer.append(2)
    assert writer.messages() == [1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_any_mixture_of_faults_keeps_the_order(writer: Writer, proxy: Proxy, seed: int) -> None:
    """Five requests are under way at a time, so that they overtake each other too."""
    writer.create("application/json")
    random = Random(seed)
    mixture: list[Fault] = [*FAULTS[:4], *FAULTS[6:], *[Sound()] * 6, Delayed(random.random() / 20)]

    def plan(request: Request) -> Fault:
        return random.choice(mixture) if request.method == "POST" else Sound()

    retry = Retry(1000, 0.001, 0.02)
    with (
        Client(proxy.origin, retry=retry, timeout_secs=2.0) as client,
        client.stream(writer.name).producer(max_batch_items=random.randrange(4, 20)) as producer,
    ):
        proxy.follow_plan(plan)
        for number in NUMBERS:
            producer.append(number)
    assert writer.messages() == NUMBERS


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_the_end_of_the_stream_comes_once_too(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    writer.create("application/json")
    proxy.arm(fault, method="POST")
    producer = shaky.producer()
    producer.append("first")
    assert producer.close("last") == writer.tail
    assert writer.messages() == ["first", "last"]
    with pytest.raises(StreamClosed):
        shaky.append("more")


def test_a_server_that_never_answers_is_told_by_flush(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    producer = shaky.producer()
    producer.append("lost")
    proxy.arm(NeverSent(), times=100, method="POST")
    with pytest.raises(Unreachable, match=writer.name):
        producer.flush()
    with pytest.raises(Unreachable):
        producer.append("more")


def test_a_refusal_is_told_by_the_end_of_the_block(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    proxy.arm(Reply(403, {}, b"not yours"), times=100, method="POST")
    with pytest.raises(ProtocolError, match="not yours"), shaky.producer() as producer:
        producer.append("refused")


def test_a_producer_that_was_fenced_is_told_by_whom(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    producer = shaky.producer("worker", epoch=1)
    producer.append("mine")
    producer.flush()
    writer.produce(b'"theirs"', "worker", 2, 0)
    producer.append("late")
    with pytest.raises(StaleEpoch, match="2") as fence:
        producer.flush()
    assert fence.value.status == 403
    assert writer.messages() == ["mine", "theirs"]


def test_a_lost_answer_in_the_midst_of_many_is_no_gap(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    for _ in range(5):
        proxy.arm(Sound(), times=3, method="POST")
        proxy.arm(AnswerLost(), method="POST")
        proxy.arm(CutAfter(0), method="POST")
    with shaky.producer(max_batch_items=5) as producer:
        for number in NUMBERS:
            producer.append(number)
    assert writer.messages() == NUMBERS
