"""What was done though its answer was lost is not told as a failure; what makes no sense is told as such."""

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import InvalidAnswer, Unsupported
from everbrook.client.models import Snapshot
from everbrook.protocol.errors import (
    BucketNotFound,
    PreconditionFailed,
    SnapshotNotFound,
    StreamNotFound,
    SubscriptionNotFound,
)
from tests.kit.faults.kinds import AnswerLost, CutAfter, Fault, Reply
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio


async def test_a_snapshot_that_must_be_the_first_is_published_once(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json", b"1")
    offset = (await shaky.head()).offset
    proxy.arm(AnswerLost(), method="PUT")
    await shaky.publish(b"one", offset=offset, if_none_match=True)
    found = await shaky.snapshot()
    assert found is not None
    assert (found.offset, found.data) == (offset, b"one")


async def test_a_snapshot_of_somebody_else_is_not_taken_for_ones_own(
    writer: Writer, proxy: Proxy, stream: AsyncStream[object], shaky: AsyncStream[object]
) -> None:
    writer.create("application/json", b"1")
    offset = (await stream.head()).offset
    await stream.publish(b"theirs", offset=offset)
    proxy.arm(AnswerLost(), method="PUT")
    with pytest.raises(PreconditionFailed):
        await shaky.publish(b"mine", offset=offset, if_none_match=True)


async def test_a_snapshot_is_deleted_once(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("application/json", b"1")
    offset = (await shaky.head()).offset
    await shaky.publish(b"one", offset=offset, keep_history=True)
    proxy.arm(AnswerLost(), method="DELETE")
    await shaky.delete_snapshot(offset)
    with pytest.raises(SnapshotNotFound):
        await shaky.delete_snapshot(offset)


async def test_a_stream_is_deleted_once(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("application/json")
    proxy.arm(AnswerLost(), method="DELETE")
    await shaky.delete()
    with pytest.raises(StreamNotFound):
        await shaky.delete()


async def test_a_stream_that_must_be_new_is_created_once(proxy: Proxy, shaky: AsyncStream[object]) -> None:
    proxy.arm(AnswerLost(), method="PUT")
    await shaky.create(exist_ok=False)
    assert len(proxy.asked("PUT")) == 2


async def test_a_bucket_is_made_and_deleted_once(writer: Writer, proxy: Proxy, shaky_client: AsyncClient) -> None:
    bucket = shaky_client.bucket(writer.name)
    proxy.arm(AnswerLost(), method="PUT")
    await bucket.create(exist_ok=False)
    proxy.arm(AnswerLost(), method="DELETE")
    await bucket.delete()
    with pytest.raises(BucketNotFound):
        await bucket.delete()


async def test_a_subscription_is_deleted_once(writer: Writer, proxy: Proxy, shaky_client: AsyncClient) -> None:
    writer.create("application/json")
    subscription = shaky_client.subscription(writer.name)
    await subscription.create(pattern="nothing/*", wake_stream=writer.name)
    proxy.arm(AnswerLost(), method="DELETE")
    await subscription.delete()
    with pytest.raises(SubscriptionNotFound):
        await subscription.delete()


@pytest.mark.parametrize("fault", [CutAfter(10), CutAfter(100), Reply(503), Reply(502), AnswerLost()], ids=repr)
async def test_a_bootstrap_is_whole_or_asked_for_again(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], fault: Fault
) -> None:
    writer.create("application/json", b"[1, 2, 3]")
    proxy.arm(fault, query="bootstrap")
    assert (await shaky.bootstrap()).messages == [1, 2, 3]


@pytest.mark.parametrize("location", ["http://elsewhere.example/snapshot/1", "//elsewhere.example/x", ""])
async def test_a_snapshot_is_not_looked_for_on_other_servers(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], location: str
) -> None:
    """They would get the token."""
    proxy.arm(Reply(307, {"Location": location} if location else {}), query="snapshot")
    with pytest.raises(InvalidAnswer, match=r"__ds/snapshot (is answered with a redirect|must redirect to a snapshot)"):
        await shaky.snapshot()
    assert len(proxy.requests) == 1


async def test_a_snapshot_that_is_always_gone_is_not_looked_for_for_ever(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json", b"1")
    await shaky.publish(b"one", offset=(await shaky.head()).offset)
    missing = Reply(404, {"Content-Type": "application/problem+json"}, b'{"code": "snapshot_not_found"}')
    proxy.arm(missing, times=100, query="snapshot/")
    with pytest.raises(InvalidAnswer, match="10 times"):
        await shaky.snapshot()


async def test_a_snapshot_that_was_replaced_meanwhile_is_asked_for_again(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json", b"1")
    offset = (await shaky.head()).offset
    await shaky.publish(b"one", offset=offset)
    missing = Reply(404, {"Content-Type": "application/problem+json"}, b'{"code": "snapshot_not_found"}')
    proxy.arm(missing, query="snapshot/")
    found = await shaky.snapshot()
    assert isinstance(found, Snapshot)
    assert found.offset == offset


async def test_documents_that_are_none_are_invalid_answers(proxy: Proxy, shaky_client: AsyncClient) -> None:
    proxy.arm(Reply(200, {"Content-Type": "text/html"}, b"<html>"), times=4)
    for asked in (shaky_client.bucket("some").head, shaky_client.subscription("some").read, shaky_client.changes):
        with pytest.raises(InvalidAnswer, match="is not the expected JSON document"):
            await asked()


async def test_a_server_without_a_list_of_streams_is_noticed(proxy: Proxy, shaky_client: AsyncClient) -> None:
    proxy.arm(Reply(404))
    with pytest.raises(Unsupported, match="has no list of streams"):
        await shaky_client.changes()


async def test_an_answer_that_is_not_encoded_as_it_says_is_invalid(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json", "Stream-Next-Offset": "1"}
    proxy.arm(Reply(200, headers, b"this is not gzip"))
    with pytest.raises(InvalidAnswer, match="does not match its Content-Encoding"):
        await shaky.read().all()


async def test_what_no_header_can_carry_is_the_callers_mistake(writer: Writer, shaky: AsyncStream[object]) -> None:
    writer.create("application/json")
    with pytest.raises(ValueError, match="can't be sent: Illegal header value"):
        await shaky.append(1, seq="a\nb")
