"""Budgets: how many lines of the package one request may run, from its bytes to those of its answer.

A change that makes every append or every read dearer has to raise a number here, so nobody does so unseen.
"""

import asyncio
from pathlib import Path

import pytest

from everbrook.server.tuning import ConnectionTuning
from everbrook.settings.sections.storage import StorageMode
from tests.server.stepped_server import HandServer

APPEND = (
    b"POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n"
    + b"x" * 100
)
AS_PRODUCER = b"Producer-Id: one\r\nProducer-Epoch: 0\r\nProducer-Seq: %d\r\nContent-Length"
CREATE = APPEND.replace(b"POST", b"PUT")
GET = b"GET /v1/stream/s?offset=-1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = GET.replace(b"GET", b"HEAD")


UP_TO_DATE = b"GET /v1/stream/s?offset=%016d HTTP/1.1\r\nHost: localhost\r\n\r\n"
JSON = APPEND.replace(b"/s ", b"/j ").replace(b"text/plain", b"application/json").replace(b"x" * 100, b"1" * 100)

WARM = range(50)
# Lines and calls, at most 3 % above what is counted: versions of Python count one or two differently.
READ = {"get": (108, 16), "get at the tail": (108, 16), "head": (107, 16)}
BUDGETS = {
    StorageMode.MEMORY: {
        "append": (203, 33),
        "append of JSON": (227, 39),
        "append as a producer": (300, 48),
        "append that is parsed": (324, 57),
        **READ,
    },
    StorageMode.ACID: {
        "append": (385, 80),
        "append of JSON": (410, 86),
        "append as a producer": (492, 98),
        "append that is parsed": (506, 104),
        **READ,
    },
}
REQUESTS = {
    "append": [APPEND for _ in WARM],
    "append of JSON": [JSON for _ in WARM],
    "append as a producer": [APPEND.replace(b"Content-Length", AS_PRODUCER % number) for number in WARM],
    "append that is parsed": [APPEND.replace(b"Host", b"Header-%d: x\r\nHost" % number) for number in WARM],
    "get": [APPEND, *(GET for _ in WARM)],
    "get at the tail": [APPEND, *(UP_TO_DATE % 0 for _ in WARM)],
    "head": [APPEND, *(HEAD for _ in WARM)],
}


@pytest.mark.parametrize("mode", BUDGETS)
def test_requests_keep_to_their_budgets(tmp_path: Path, mode: StorageMode) -> None:
    async def made() -> HandServer:
        return HandServer(tmp_path, mode)

    with asyncio.Runner() as runner:
        server = runner.run(made())
        server.ask(CREATE)
        server.ask(JSON.replace(b"POST", b"PUT"))
        costs = {request: server.cost(*wire) for request, wire in REQUESTS.items()}
        server.engine.close()
    beside = {}
    for request, work in costs.items():
        lines, calls = BUDGETS[mode].get(request, (0, 0))
        if not 0.9 * lines < work.lines <= lines or not 0.9 * calls < work.calls <= calls:
            beside[request] = work
    assert not beside


def test_requests_of_one_read_are_answered_in_several_turns(tmp_path: Path) -> None:
    """Whoever sends very many at once must not make other connections wait for all of them."""

    async def made() -> HandServer:
        return HandServer(tmp_path, StorageMode.MEMORY)

    with asyncio.Runner() as runner:
        server = runner.run(made())
        server.ask(CREATE)
        answers = server.answer_in_turns(GET * 1000, connections=3)
        server.engine.close()
    assert sum(answers) == 3000
    at_once = ConnectionTuning().handled_at_once
    # Only the first connection finds nobody who waits.
    assert answers[0] == at_once + 2
    assert max(answers[1:]) == at_once


def test_pipelined_writes_reach_the_disk_in_small_groups(tmp_path: Path) -> None:
    """The changes of others, which are in the same group or wait for it, must not wait for all that is pipelined."""

    async def made() -> HandServer:
        return HandServer(tmp_path, StorageMode.ACID)

    with asyncio.Runner() as runner:
        server = runner.run(made())
        server.ask(CREATE)
        server.connect()[1].data_received(APPEND * 128)
        groups: list[int] = []
        while not groups or groups[-1]:
            server.take_turns()
            before = server.engine.durable_change
            server.commit()
            server.take_turns()
            groups.append(server.engine.durable_change - before)
        server.engine.close()
    assert sum(groups) == 128
    assert max(groups) <= 2 * ConnectionTuning().handled_at_once


def test_the_turn_in_which_a_group_ends_has_no_pipelined_requests(tmp_path: Path) -> None:
    """They wait for turns of their own: the responses of a group are for all connections."""

    async def made() -> HandServer:
        return HandServer(tmp_path, StorageMode.ACID)

    with asyncio.Runner() as runner:
        server = runner.run(made())
        server.ask(CREATE)
        before = created = server.engine.last_change
        for _ in range(4):
            server.connect()[1].data_received(APPEND * 128)
        server.take_turns()
        while server.commit():
            before = server.engine.last_change
            server.take_result()
            assert server.engine.last_change == before
            server.take_turns()
        server.engine.close()
    assert before == created + 4 * 128
