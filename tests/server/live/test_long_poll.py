"""Long-poll (§5.7)."""

import threading

import pytest

from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire


def poll(path: str, offset: str = "now") -> str:
    return f"{path}?offset={offset}&live=long-poll"


def test_what_is_there_is_given_at_once(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    answer = wire.get(poll(path, "-1"))
    assert (answer.status, answer.body, answer.next_offset) == (200, b"hello", "0000000000000005")
    assert answer.headers["stream-up-to-date"] == "true"
    assert answer.headers["stream-cursor"].isdigit()


def test_at_the_tail_the_answer_waits_for_data(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, body=b"old")
    reader = connect().ask("GET", poll(path))
    assert eventually(lambda: server.waiting(path) == 1)
    wire.append(path, b"new")
    answer = reader.read()
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"new", "text/plain")


def test_json_comes_as_an_array(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, "application/json")
    reader = connect().ask("GET", poll(path))
    assert eventually(lambda: server.waiting(path) == 1)
    wire.append(path, b"[1,2]", "application/json")
    assert reader.read().body == b"[1,2]"


def test_all_who_wait_are_answered(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    readers = [connect().ask("GET", poll(path)) for _ in range(50)]
    assert eventually(lambda: server.waiting(path) == 50)
    wire.append(path, b"hello")
    assert {reader.read().body for reader in readers} == {b"hello"}
    assert server.waiting(path) == 0


def test_silence_is_a_204_with_the_position(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(server__long_poll_timeout_secs=0.05))
    wire.create(path, body=b"hello")
    answer = wire.get(poll(path))
    assert (answer.status, answer.next_offset) == (204, "0000000000000005")
    assert answer.headers["stream-up-to-date"] == "true"
    assert answer.headers["stream-cursor"].isdigit()
    assert "content-type" not in answer.headers


def test_a_closed_stream_is_not_waited_for(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello", stream_closed="true")
    answer = wire.get(poll(path))
    assert (answer.status, answer.headers["stream-closed"]) == (204, "true")
    assert "stream-cursor" not in answer.headers


def test_closing_answers_those_who_wait(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    reader = connect().ask("GET", poll(path))
    assert eventually(lambda: server.waiting(path) == 1)
    wire.request("POST", path, stream_closed="true")
    answer = reader.read()
    assert (answer.status, answer.headers["stream-closed"]) == (204, "true")


def test_the_last_message_comes_with_the_close(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    reader = connect().ask("GET", poll(path))
    assert eventually(lambda: server.waiting(path) == 1)
    wire.append(path, b"bye", stream_closed="true")
    answer = reader.read()
    assert (answer.status, answer.body, answer.headers["stream-closed"]) == (200, b"bye", "true")


def test_a_timeout_that_races_with_appends_never_loses_data(start: Start, connect: Connect, path: str) -> None:
    server = start(server__long_poll_timeout_secs=0.001)
    writer, reader = connect(server), connect(server)
    writer.create(path)
    stop = threading.Event()

    def write() -> None:
        for number in range(2000):
            writer.append(path, b"%04d" % number)
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    received, offset = b"", f"{0:016d}"
    while not stop.is_set() or len(received) < 8000:
        answer = reader.get(poll(path, offset))
        assert answer.status in {200, 204}
        received, offset = received + answer.body, answer.next_offset
    thread.join()
    assert received == b"".join(b"%04d" % number for number in range(2000))


def test_a_timeout_at_the_very_moment_of_an_append_gives_the_data(start: Start, connect: Connect, path: str) -> None:
    """The append and the timeout come in one turn of the loop, in either order."""
    server = start(server__long_poll_timeout_secs=1000.0)
    writer, reader = connect(server), connect(server)
    writer.create(path)
    for number in range(50):
        reader.ask("GET", poll(path))
        assert eventually(lambda: server.waiting(path) == 1)
        (waiter,) = server.answering
        writer.ask("POST", path, b"%02d" % number, content_type="text/plain")
        server.call(waiter.shut_down)
        assert writer.read().status == 204
        answer = reader.read()
        if answer.status == 204:
            answer = reader.get(poll(path, answer.next_offset))
        assert answer.body == b"%02d" % number
        assert server.waiting(path) == 0


def test_a_client_that_goes_away_waits_no_longer(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path)
    reader = connect().ask("GET", poll(path))
    assert eventually(lambda: server.waiting(path) == 1)
    reader.close()
    assert eventually(lambda: server.waiting(path) == 0)


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_a_page_that_the_client_has_is_a_304(start_either: StartEither, path: str, form: str) -> None:
    """§10.1: as on catch-up."""
    with start_either().connect() as wire:
        wire.create(path, body=b"hello")
        page = wire.get(poll(path, "-1"))
        again = wire.get(poll(path, "-1"), if_none_match=form.format(page.headers["etag"]))
        assert (again.status, again.body) == (304, b"")
        for name in ("etag", "cache-control", "stream-next-offset", "stream-up-to-date"):
            assert again.headers[name] == page.headers[name]
        assert "stream-cursor" in again.headers
        wire.append(path, b"!")
        assert wire.get(poll(path, "-1"), if_none_match=page.headers["etag"]).body == b"hello!"


def test_what_comes_while_the_answer_waits_is_given_whatever_the_client_has(
    start: Start, connect: Connect, path: str
) -> None:
    server = start()
    wire, reader = connect(server), connect(server)
    wire.create(path, body=b"old")
    etag = wire.get(poll(path, "-1")).headers["etag"]
    reader.ask("GET", poll(path, f"{3:016d}"), if_none_match=f"{etag}, *")
    assert eventually(lambda: server.waiting(path) == 1)
    wire.append(path, b"new")
    assert reader.read().body == b"new"


def test_an_answer_without_a_tag_is_never_a_304(wire: Wire, path: str) -> None:
    """It begins where its URL does not say."""
    wire.create(path, body=b"hello")
    assert wire.get(f"{path}?last=1&live=long-poll", if_none_match="*").body == b"hello"


def test_an_echoed_cursor_is_exceeded(wire: Wire, path: str) -> None:
    """§10.1."""
    wire.create(path, body=b"hello")
    first = wire.get(poll(path, "-1")).headers["stream-cursor"]
    second = wire.get(f"{poll(path, '-1')}&cursor={first}").headers["stream-cursor"]
    assert int(second) > int(first)


@pytest.mark.parametrize(
    "query", ["live=long-poll", "live=long-poll&offset=", "live=poll&offset=-1", "live=&offset=-1"]
)
def test_an_unclear_wish_is_a_400(wire: Wire, path: str, query: str) -> None:
    wire.create(path)
    assert wire.get(f"{path}?{query}").status == 400


@pytest.mark.parametrize("cursor", ["abc", "-1", "1.5"])
def test_a_cursor_that_is_no_number_is_a_400(wire: Wire, path: str, cursor: str) -> None:
    wire.create(path, body=b"a")
    assert wire.get(f"{poll(path, '-1')}&cursor={cursor}").refusal == (400, "invalid_query")


@pytest.mark.parametrize("cursor", ["", "9" * 40])
def test_an_empty_cursor_and_any_digits_are_accepted(wire: Wire, path: str, cursor: str) -> None:
    """Gap G-22."""
    wire.create(path, body=b"a")
    answer = wire.get(f"{poll(path, '-1')}&cursor={cursor}")
    assert (answer.status, int(answer.headers["stream-cursor"]) > int(cursor or 0)) == (200, True)


def test_appends_to_a_forks_source_do_not_wake_its_readers(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    """§4.2: what the source gets after the fork is not the fork's."""
    wire.create(path, body=b"hello")
    wire.create(f"{path}/fork", stream_forked_from=path)
    reader = connect().ask("GET", poll(f"{path}/fork"))
    assert eventually(lambda: server.waiting(f"{path}/fork") == 1)
    wire.append(path, b"more")
    assert reader.nothing_for(0.05)
    wire.append(f"{path}/fork", b"own")
    assert reader.read().body == b"own"
