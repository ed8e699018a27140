# Written by tools/mirror.py from tests/client/async_/cases/test_retrying.py: change that file, not this one.
"""What may pass is tried again, what will not is raised at once, and nothing goes on for ever."""

import time

import pytest

from everbrook.client._sync.stream import Stream
from everbrook.client.errors import Unreachable
from everbrook.protocol.errors import BadRequest, ProtocolError, StreamNotFound
from tests.kit.faults.kinds import AnswerLost, CutAfter, Delayed, Fault, NeverSent, Reply, Stalled, Trickled
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

PASSING = [
    Reply(500),
    Reply(502),
    Reply(503),
    Reply(504),
    Reply(429),
    Reply(503, {"Content-Type": "text/html"}, b"<html>down for maintenance</html>"),
    NeverSent(),
    NeverSent(rudely=True),
    AnswerLost(),
    AnswerLost(rudely=True),
    CutAfter(3),
    CutAfter(3, rudely=True),
    Delayed(0.2),
    Delayed(0.05, Reply(503)),
    Trickled(1),
]


@pytest.mark.parametrize("fault", PASSING, ids=repr)
def test_a_read_outlives_what_passes(writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault) -> None:
    writer.create("text/plain", b"every ", b"word")
    proxy.arm(fault)
    assert shaky.read().text() == "every word"


@pytest.mark.parametrize("fault", PASSING, ids=repr)
def test_creating_looking_and_deleting_outlive_it_too(
    writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault
) -> None:
    for method in ("PUT", "HEAD", "DELETE"):
        proxy.arm(fault, method=method)
    assert shaky.create(content_type="text/plain", exist_ok=False).content_type == "text/plain"
    assert shaky.exists()
    shaky.delete()
    assert not shaky.exists()


@pytest.mark.parametrize("fault", PASSING, ids=repr)
def test_closing_outlives_it_too(writer: Writer, proxy: Proxy, shaky: Stream[object], fault: Fault) -> None:
    writer.create("text/plain", b"end")
    proxy.arm(fault, method="POST")
    assert shaky.close() == writer.tail
    assert writer.content() == b"end"


def test_several_failures_in_a_row_are_outlived(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("text/plain", b"persisted")
    for fault in (Reply(500), NeverSent(), Reply(503), CutAfter(2)):
        proxy.arm(fault)
    assert shaky.read().text() == "persisted"
    assert len(proxy.asked("GET")) == 5


def test_a_stalled_read_is_given_up_and_made_again(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("text/plain", b"at last")
    proxy.arm(Stalled())
    assert shaky.read().text() == "at last"


@pytest.mark.parametrize("status", [429, 503])
def test_it_waits_as_long_as_it_is_told(writer: Writer, proxy: Proxy, shaky: Stream[object], status: int) -> None:
    writer.create("text/plain", b"later")
    proxy.arm(Reply(status, {"Retry-After": "1"}))
    begin = time.monotonic()
    assert shaky.read().text() == "later"
    assert time.monotonic() - begin >= 1.0


@pytest.mark.parametrize("status", [429, 503])
def test_an_append_waits_too(writer: Writer, proxy: Proxy, shaky: Stream[object], status: int) -> None:
    writer.create()
    proxy.arm(Reply(status, {"Retry-After": "1"}), method="POST")
    begin = time.monotonic()
    shaky.append("late")
    assert time.monotonic() - begin >= 1.0
    assert writer.content() == b"late"


def test_a_date_to_wait_for_that_is_past_is_no_reason_to_wait(
    writer: Writer, proxy: Proxy, shaky: Stream[object]
) -> None:
    writer.create("text/plain", b"now")
    proxy.arm(Reply(503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    assert shaky.read().text() == "now"


def test_what_does_not_pass_ends_with_the_last_refusal(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("text/plain", b"never")
    proxy.arm(Reply(500, {}, b"no room"), times=100)
    with pytest.raises(ProtocolError, match="no room") as raised:
        shaky.read().all()
    assert raised.value.status == 500
    assert len(proxy.asked("GET")) == 6


def test_a_server_that_never_answers_is_unreachable(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create()
    proxy.arm(NeverSent(), times=100)
    with pytest.raises(Unreachable, match=f"(?s){writer.name}.*6 attempts"):
        shaky.head()


def test_what_is_not_there_is_asked_for_once(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    with pytest.raises(StreamNotFound, match=writer.name):
        shaky.read().all()
    assert len(proxy.asked("GET")) == 1


def test_what_makes_no_sense_is_asked_for_once(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create("text/plain", b"data")
    proxy.arm(Reply(400, {}, b"no such parameter"))
    with pytest.raises(BadRequest, match="no such parameter"):
        shaky.read().all()
    assert len(proxy.asked("GET")) == 1


def test_only_the_method_that_fails_is_repeated(writer: Writer, proxy: Proxy, shaky: Stream[object]) -> None:
    writer.create()
    proxy.arm(Reply(503), method="POST")
    assert shaky.read().text() == ""
    shaky.append("method-filtered")
    assert shaky.read().text() == "method-filtered"
    assert len(proxy.asked("POST")) == 2
