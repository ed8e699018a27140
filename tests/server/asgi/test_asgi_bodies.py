"""Under an ASGI server that speaks HTTP/2, where a head need not say that a body follows: of strangers little is taken.

The messages are made here: no ASGI server that speaks HTTP/2 is needed to say what it would.
"""

import asyncio
from pathlib import Path

import pytest

from everbrook.server.asgi import AsgiApplication, create_app
from everbrook.server.asgi.response import Message
from everbrook.server.exchange import JUDGED_BYTES
from tests.kit.keyring import Keyring
from tests.kit.server_thread import configured

PIECES = 100


class Asked:
    """A request without a length, whose body comes in pieces. Knows how it was answered, and how many were `taken`."""

    def __init__(self, method: str, path: str, authorization: str) -> None:
        headers = [(b"host", b"h"), (b"content-type", b"text/plain"), (b"authorization", authorization.encode())]
        self.scope = {"type": "http", "http_version": "2", "method": method, "path": path, "query_string": b""}
        self.scope |= {"headers": headers, "client": ("203.0.113.7", 4711)}
        self.taken = 0
        self.status = 0

    async def receive(self) -> Message:
        self.taken += 1
        return {"type": "http.request", "body": b"x" * JUDGED_BYTES, "more_body": self.taken < PIECES}

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


def ask(streams: AsgiApplication, *asked: Asked) -> None:
    async def run() -> None:
        async with streams.lifespan():
            for each in asked:
                await streams(each.scope, each.receive, each.send)

    asyncio.run(run())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_no_more_than_a_little_is_taken_of_a_stranger(tmp_path: Path, method: str) -> None:
    streams = create_app(configured(auth__api_keys_path=str(Keyring(tmp_path).path)))
    ask(streams, asked := Asked(method, "/v1/stream/a", ""))
    assert (asked.status, asked.taken) == (401, 2)


def test_a_report_without_a_token_is_a_strangers_without_a_policy_too() -> None:
    ask(create_app(configured()), asked := Asked("POST", "/v1/stream/__ds/subscriptions/s/ack", "Bearer x"))
    assert (asked.status, asked.taken) == (401, 2)


def test_all_is_taken_of_who_may_send_it(tmp_path: Path) -> None:
    keys = Keyring(tmp_path)
    key = keys.give("create:/v1/stream")
    ask(create_app(configured(auth__api_keys_path=str(keys.path))), asked := Asked("PUT", "/v1/stream/a", key))
    assert (asked.status, asked.taken) == (201, PIECES)
