"""Many questions at once have the answers that each would have alone."""

import socket
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from everbrook import Client
from everbrook.spark.connection import Connection
from everbrook.spark.http_pipeline import PipelinedConnection
from everbrook.spark.streams.limits import Lookup, look_up_all


@pytest.fixture
def questions(client: Client, prefix: str) -> list[Lookup]:
    """One question about each of many streams, of which some have less than is asked for."""
    names = [f"{prefix}{number}" for number in range(40)]
    for number, name in enumerate(names):
        client.stream(name).create()
        client.stream(name).extend(range(10 + number))
    return [Lookup(name, "-1", "skip" if number % 2 else "max_bytes", 25) for number, name in enumerate(names)]


def test_answers_are_those_of_single_questions(connection: Connection, questions: list[Lookup]) -> None:
    assert look_up_all(connection, questions) == [
        connection.look_up(question.name, question.query) for question in questions
    ]


@pytest.mark.parametrize("count", [3, 40])
def test_nothing_is_behind_the_offset_of_a_stream_that_has_changed(
    connection: Connection, client: Client, questions: list[Lookup], count: int
) -> None:
    questions = questions[:count]
    questions[2] = replace(questions[2], incarnation=client.stream(questions[2].name).head().incarnation)
    expected = look_up_all(connection, questions)
    for question in (questions[0], questions[2]):
        client.stream(question.name).delete()
    client.stream(questions[2].name).create(data=1)
    assert look_up_all(connection, questions) == ["-1", expected[1], "-1", *expected[3:]]


def test_what_a_broken_connection_leaves_open_is_asked_again(
    connection: Connection, questions: list[Lookup], ending: PipelinedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [connection.look_up(question.name, question.query) for question in questions]
    monkeypatch.setattr(Connection, "pipeline", lambda _self: ending)
    assert look_up_all(connection, questions)[2:] == expected[2:]


@pytest.fixture
def ending() -> Iterator[PipelinedConnection]:
    """A connection that gives two answers and the beginning of a third."""
    ours, theirs = socket.socketpair()
    answer = b"HTTP/1.1 200 OK\r\nStream-Offset: 0000000000000042\r\nContent-Length: 999\r\n\r\n"

    def serve() -> None:
        with theirs:
            theirs.recv(1024 * 1024)
            theirs.sendall(answer * 2 + answer[:20])

    server = threading.Thread(target=serve)
    server.start()
    with ours:
        yield PipelinedConnection(ours, "test")
    server.join()
