"""The proxy of the fault tests does to a connection what each fault says: shown with a client that repairs nothing."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.kit.faults.kinds import (
    AnswerLost,
    Buffered,
    CutAfter,
    Delayed,
    Edited,
    Fault,
    NeverSent,
    Preceded,
    Reply,
    Stalled,
    StalledAfter,
    Trickled,
    Twice,
)
from tests.kit.faults.proxy import Proxy
from tests.kit.server_thread import RunningServer, configured

TEXT = b"0123456789" * 20
HEADERS = {"Content-Type": "text/plain"}


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    with RunningServer(configured(server__long_poll_timeout_secs=0.2)) as server, Proxy(server.address[1]) as proxy:
        yield proxy


@pytest.fixture
def http(served: Proxy) -> Iterator[httpx2.Client]:
    """A client of a server on which one stream has a text in it."""
    served.disarm()
    with httpx2.Client(base_url=f"{served.origin}/v1/stream", timeout=1.0) as client:
        client.delete("text")
        client.put("text", headers=HEADERS, content=TEXT).raise_for_status()
        served.requests.clear()
        yield client


def test_a_sound_connection_carries_everything_and_is_kept(served: Proxy, http: httpx2.Client) -> None:
    assert [http.get("text").content for _ in range(3)] == [TEXT] * 3
    assert http.get("text?offset=now&live=long-poll").status_code == 204
    assert len(served.asked("GET")) == 4


@pytest.mark.parametrize("rudely", [False, True])
def test_a_request_that_is_never_sent_changes_nothing(served: Proxy, http: httpx2.Client, rudely: bool) -> None:  # noqa: FBT001
    served.arm(NeverSent(rudely=rudely))
    with pytest.raises(httpx2.TransportError):
        http.post("text", headers=HEADERS, content=b"!")
    assert http.get("text").content == TEXT


@pytest.mark.parametrize("rudely", [False, True])
def test_a_lost_answer_leaves_its_effect(served: Proxy, http: httpx2.Client, rudely: bool) -> None:  # noqa: FBT001
    served.arm(AnswerLost(rudely=rudely))
    with pytest.raises(httpx2.TransportError):
        http.post("text", headers=HEADERS, content=b"!")
    assert http.get("text").content == TEXT + b"!"


def test_a_cut_ends_within_the_body(served: Proxy, http: httpx2.Client) -> None:
    served.arm(CutAfter(15))
    with http.stream("GET", "text") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == TEXT[:15]
        with pytest.raises(httpx2.RemoteProtocolError):
            next(pieces)


def test_a_reply_never_reaches_the_server(served: Proxy, http: httpx2.Client) -> None:
    served.arm(Reply(503, {"Retry-After": "1"}, b"busy"), method="POST")
    assert http.get("text").status_code == 200
    answer = http.post("text", headers=HEADERS, content=b"!")
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (503, "1", b"busy")
    assert http.get("text").content == TEXT


@pytest.mark.parametrize("fault", [Stalled(), StalledAfter(10)], ids=repr)
def test_a_stall_gives_nothing_and_does_not_end(served: Proxy, http: httpx2.Client, fault: Fault) -> None:
    served.arm(fault)
    with pytest.raises(httpx2.ReadTimeout):
        http.get("text", timeout=0.2)


def test_two_requests_have_two_effects(served: Proxy, http: httpx2.Client) -> None:
    served.arm(Twice())
    assert http.post("text", headers=HEADERS, content=b"!").status_code == 204
    assert http.get("text").content == TEXT + b"!!"


def test_what_is_late_or_slow_is_whole(served: Proxy, http: httpx2.Client) -> None:
    served.arm(Delayed(0.05))
    served.arm(Trickled(7))
    assert [http.get("text").content for _ in range(2)] == [TEXT] * 2


def test_a_buffered_event_stream_shows_no_event(served: Proxy, http: httpx2.Client) -> None:
    served.arm(Buffered())
    with http.stream("GET", "text?offset=-1&live=sse") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        with pytest.raises(httpx2.ReadTimeout):
            next(answer.iter_raw())


def test_an_edited_answer_is_well_framed(served: Proxy, http: httpx2.Client) -> None:
    served.arm(Edited(lambda body: body[:3], {"Content-Type": "text/html", "Stream-Next-Offset": None}))
    answer = http.get("text")
    assert (answer.content, answer.headers["content-type"]) == (TEXT[:3], "text/html")
    assert "stream-next-offset" not in answer.headers


def test_something_can_stand_before_the_events(served: Proxy, http: httpx2.Client) -> None:
    served.arm(Preceded(b"event: odd\ndata: x\n\n"))
    with http.stream("GET", "text?offset=-1&live=sse") as answer:
        assert next(answer.iter_raw()) == b"event: odd\ndata: x\n\n"


def test_every_connection_can_be_cut_at_once(served: Proxy, http: httpx2.Client) -> None:
    with http.stream("GET", "text?offset=now&live=sse") as answer:
        pieces = answer.iter_raw()
        next(pieces)
        served.cut_all()
        with pytest.raises(httpx2.RemoteProtocolError):
            list(pieces)
