# Written by tools/mirror.py from tests/client/async_/cases/test_producing.py: change that file, not this one.
"""Idempotent producers (§5.2.1): batches, numbers, epochs, and what happens when two claim to be one."""

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import ProducerReused
from everbrook.protocol.errors import SequenceGap, SequenceRegression, StaleEpoch, StreamClosed, StreamNotFound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

VALUES: list[object] = [{"a": 1}, [1, 2, 3], [], "text", None, 1.5, True]


def test_one_message_is_one_message(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with stream.producer("p") as producer:
        producer.append({"only": 1})
    assert writer.messages() == [{"only": 1}]


def test_messages_of_every_kind_are_put_together_and_stay_apart(
    writer: Writer, proxy: Proxy, shaky: Stream[object]
) -> None:
    writer.create("application/json")
    with shaky.producer("p", linger_secs=0.5) as producer:
        for value in VALUES:
            producer.append(value)
    assert writer.messages() == VALUES
    assert len(proxy.asked("POST")) == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream"])
def test_bytes_are_put_one_behind_the_other(writer: Writer, stream: Stream[object], content_type: str) -> None:
    writer.create(content_type)
    with stream.producer() as producer:
        for number in range(50):
            producer.append(b"%d," % number)
    assert writer.content() == b"".join(b"%d," % number for number in range(50))


def test_each_batch_has_its_number(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("application/json")
    with shaky.producer("numbers", epoch=3, max_batch_items=2, max_in_flight=1) as producer:
        for number in range(6):
            producer.append(number)
    sent = [request.headers for request in proxy.asked("POST")]
    assert [(head["producer-id"], head["producer-epoch"], head["producer-seq"]) for head in sent] == [
        ("numbers", "3", str(number)) for number in range(3)
    ]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("max_in_flight", [1, 5])
def test_many_batches_at_once_all_arrive_in_order(
    writer: Writer, stream: Stream[object], content_type: str, max_in_flight: int
) -> None:
    writer.create(content_type)
    with stream.producer(max_batch_items=7, max_in_flight=max_in_flight) as producer:
        for number in range(500):
            producer.append(f"{number},")
    text = "".join(str(value) for value in stream.read().all())
    assert text == "".join(f"{number}," for number in range(500))


@pytest.mark.parametrize("limits", [{"max_batch_items": 1}, {"max_batch_bytes": 1}, {"linger_secs": 0}])
def test_limits_do_not_change_what_arrives(writer: Writer, stream: Stream[object], limits: dict[str, int]) -> None:
    writer.create("application/json")
    with stream.producer(**limits) as producer:  # type: ignore[arg-type]
        for number in range(20):
            producer.append(number)
    assert writer.messages() == list(range(20))


def test_a_flush_tells_the_offset_behind_everything(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    producer = stream.producer()
    producer.append(1)
    assert producer.flush() == writer.tail
    producer.detach()


def test_a_producer_that_was_there_before_is_not_taken_for_a_repetition_in_silence(
    writer: Writer, stream: Stream[object]
) -> None:
    writer.create("application/json")
    writer.produce(b'"original"', "p", 0, 0)
    with pytest.raises(ProducerReused, match="epoch"), stream.producer("p") as producer:
        producer.append("new")


def test_a_known_sequence_is_gone_on_with(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    for seq in range(2):
        writer.produce(b"%d" % seq, "p", 0, seq)
    with stream.producer("p", seq=2) as producer:
        producer.append(2)
    assert writer.messages() == [0, 1, 2]


def test_a_gap_is_refused_and_told(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    writer.produce(b"0", "p", 0, 0)
    with pytest.raises(SequenceGap) as gap, stream.producer("p", seq=2) as producer:
        producer.append(2)
    headers = {name.lower(): value for name, value in gap.value.headers}
    assert (headers[b"producer-expected-seq"], headers[b"producer-received-seq"]) == (b"1", b"2")
    with stream.producer("p", seq=1) as filler:
        filler.append(1)
    assert writer.messages() == [0, 1]


def test_a_sequence_of_the_stream_does_not_disturb_its_producers(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    writer.send("POST", b"0", Producer_Id="p", Producer_Epoch="0", Producer_Seq="0", Stream_Seq="app-seq-001")
    with stream.producer("p", seq=1) as producer:
        producer.append(1)
    with pytest.raises(SequenceRegression):
        stream.append("late", seq="app-seq-000")
    assert writer.messages() == [0, 1]


def test_a_new_producer_begins_at_zero(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    with pytest.raises(SequenceGap), stream.producer("new", seq=5) as producer:
        producer.append("never")
    assert writer.messages() == []


@pytest.mark.parametrize("epoch", [1, 7, 2**40])
def test_a_higher_epoch_begins_anew(writer: Writer, stream: Stream[object], epoch: int) -> None:
    writer.create("application/json")
    writer.produce(b'"old"', "p", 0, 0)
    with stream.producer("p", epoch=epoch) as producer:
        producer.append("new")
    assert writer.messages() == ["old", "new"]
    with pytest.raises(StaleEpoch) as fence, stream.producer("p", epoch=epoch - 1) as zombie:
        zombie.append("never")
    assert str(epoch) in str(fence.value)
    assert writer.messages() == ["old", "new"]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_producer_may_take_over(writer: Writer, stream: Stream[object], content_type: str) -> None:
    writer.create(content_type)
    writer.produce(b'"theirs"', "p", 5, 0)
    with stream.producer("p", epoch=0, auto_claim=True, max_batch_items=3) as producer:
        for _ in range(30):
            producer.append("m")
    assert producer.epoch == 6
    assert writer.content().count(b"m") == 30


@pytest.mark.parametrize("epoch", [None, 0])
def test_a_producer_takes_over_from_its_own_last_run(writer: Writer, stream: Stream[object], epoch: int | None) -> None:
    writer.create("application/json")
    for run in range(3):
        with stream.producer("p", epoch=epoch, auto_claim=True) as producer:
            producer.append(run)
    assert writer.messages() == [0, 1, 2]


def test_a_producer_that_took_over_fences_the_other(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    old, new = stream.producer("p"), stream.producer("p", auto_claim=True)
    old.append("old")
    old.flush()
    new.append("new")
    new.detach()
    old.append("zombie")
    if new.epoch:
        with pytest.raises(StaleEpoch):
            old.flush()
    assert "zombie" not in writer.messages() or new.epoch == 0


@pytest.mark.parametrize("producer_id", ["x" * 200, "a/b:c#d?e=f&g.h_i~", "with space"])
def test_ids_may_be_long_and_odd(writer: Writer, stream: Stream[object], producer_id: str) -> None:
    writer.create("application/json")
    with stream.producer(producer_id) as producer:
        producer.append(1)
    assert writer.messages() == [1]


def test_producers_do_not_disturb_each_other(client: Client, writer: Writer) -> None:
    writer.create("application/json")
    stream = client.stream(writer.name)
    producers = [stream.producer(f"p{number}") for number in range(3)]
    for round_number in range(5):
        for number, producer in enumerate(producers):
            producer.append([number, round_number])
            producer.flush()
    for producer in producers:
        producer.detach()
    assert writer.messages() == [[number, turn] for turn in range(5) for number in range(3)]


def test_one_id_is_another_producer_on_another_stream(client: Client, writer: Writer) -> None:
    for number in range(2):
        stream = client.stream(f"{writer.name}/{number}")
        stream.create()
        with stream.producer("same", epoch=number) as producer:
            producer.append(number)
        assert stream.read().all() == [number]


def test_a_stream_made_again_knows_no_producers(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    writer.produce(b"1", "p", 9, 0)
    stream.delete()
    stream.create()
    with stream.producer("p") as producer:
        producer.append("fresh")
    assert writer.messages() == ["fresh"]


@pytest.mark.parametrize("last", [True, False])
def test_a_producer_ends_the_stream(writer: Writer, stream: Stream[object], last: bool) -> None:  # noqa: FBT001
    writer.create("application/json")
    producer = stream.producer("p")
    producer.append("first")
    offset = producer.close("last") if last else producer.close()
    assert writer.messages() == (["first", "last"] if last else ["first"])
    assert (offset, stream.head().closed) == (writer.tail, True)
    assert producer.close() == offset


def test_detaching_leaves_the_stream_open(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    producer = stream.producer("p")
    producer.append(1)
    producer.detach()
    assert not stream.head().closed
    with pytest.raises(ValueError, match="detached"):
        producer.append(2)


def test_an_end_under_a_name_that_was_used_before_is_noticed(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    stream.producer("p").close("body-A")
    with pytest.raises(ProducerReused):
        stream.producer("p").close("body-B")
    assert writer.messages() == ["body-A"]


def test_another_producer_cannot_end_it_again(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    stream.producer("one").close("x")
    with pytest.raises(StreamClosed):
        stream.producer("two").close("y")
    assert stream.head().closed


def test_a_stream_that_is_not_there_is_told(writer: Writer, stream: Stream[object]) -> None:
    with pytest.raises(StreamNotFound, match=writer.name), stream.producer() as producer:
        producer.append(1)
