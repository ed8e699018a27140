"""Damage in the store: live reads over it end with an error, and what lists or follows others goes on."""

import json

import pytest

from everbrook.engine import Clock
from everbrook.protocol import Head, bucket_record
from everbrook.storage import Damaged, MemoryStorage
from tests.kit.server_thread import eventually
from tests.kit.servers import Connect, Start, StartEither

PAGE = 4
QUIET = {"server__sse_keepalive_secs": 0.02, "limits__max_page_bytes": PAGE}


class RottenStorage(MemoryStorage):
    """A storage in which bytes of a stream, or whole streams, can't be read any more."""

    def __init__(self) -> None:
        super().__init__()
        self.broken_at: int | None = None
        self.lost: set[bytes] = set()

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        if self.broken_at is not None and start <= self.broken_at < end:
            raise Damaged(incarnation, self.broken_at, "base/data.mdb", "a block is damaged")
        return super().read(incarnation, start, end)

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        return [(name, None if name in self.lost else head) for name, head in super().scan(prefix, after, limit)]


@pytest.fixture
def storage() -> RottenStorage:
    return RottenStorage()


def test_an_event_stream_ends_at_damage_behind_its_first_page(
    start_either: StartEither, connect: Connect, storage: RottenStorage, path: str
) -> None:
    wire = connect(start_either(storage, **QUIET))
    wire.create(path, body=b"page")
    wire.append(path, b"lost")
    storage.broken_at = PAGE
    told = wire.get(f"{path}?offset=-1&live=sse")
    assert told.status == 200
    assert b"data:page" in told.body.replace(b"data: ", b"data:")
    assert b"lost" not in told.body
    assert wire.get(f"{path}?offset={PAGE:016d}&live=sse").refusal == (500, "stream_damaged")


def test_an_event_stream_gives_what_is_before_damage_that_its_first_page_meets(
    start_either: StartEither, connect: Connect, storage: RottenStorage, path: str
) -> None:
    wire = connect(start_either(storage, server__sse_keepalive_secs=0.02))
    wire.create(path, body=b"page")
    wire.append(path, b"lost")
    storage.broken_at = PAGE
    told = wire.get(f"{path}?offset=-1&live=sse")
    assert told.status == 200
    assert b"data:page" in told.body.replace(b"data: ", b"data:")
    assert b"lost" not in told.body


@pytest.mark.parametrize("mode", ["sse", "long-poll"])
def test_who_waits_at_the_tail_is_told_of_damage_that_others_meet(
    start: Start, connect: Connect, storage: RottenStorage, path: str, mode: str
) -> None:
    server = start(storage, **QUIET)
    wire, other = connect(server), connect(server)
    other.create(path, body=b"lost")
    wire.ask("GET", f"{path}?offset=now&live={mode}")
    assert eventually(lambda: server.waiting(path) == 1)
    storage.broken_at = 0
    assert other.get(path).refusal == (500, "stream_damaged")
    told = wire.read()
    assert (told.status, told.refusal if mode == "long-poll" else ()) == (
        (500, (500, "stream_damaged")) if mode == "long-poll" else (200, ())
    )
    assert server.waiting(path) == 0


def test_a_page_of_damaged_buckets_leads_on(start: Start, connect: Connect, storage: RottenStorage) -> None:
    wire = connect(start(storage))
    for number in range(4):
        wire.request("PUT", f"/ds/bucket-{number}")
    storage.lost = {bucket_record(b"bucket-%d" % number) for number in range(2)}
    first = json.loads(wire.get("/ds?limit=2").body)
    assert (first["buckets"], first["next_cursor"], first["has_more"]) == ([], "bucket-1", True)
    second = json.loads(wire.get("/ds?limit=2&after=bucket-1").body)
    assert [bucket["bucket_id"] for bucket in second["buckets"]] == ["bucket-2", "bucket-3"]


class SetClock(Clock):
    """A clock that a test sets. Timers know nothing of it, so nothing expires in the background."""

    ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


def test_a_bucket_with_very_many_expired_streams_is_deleted(start: Start, connect: Connect) -> None:
    clock = SetClock()
    server = start(clock=clock)
    wire = connect(server)
    wire.request("PUT", "/ds/agents")
    for number in range(600):
        wire.create(f"/ds/agents/{number}", stream_ttl="3600")
    clock.ahead_ms = 3_601_000
    assert server.call(lambda: server.engine.listing.count(b"/ds/agents/")) == 600
    assert wire.request("DELETE", "/ds/agents").status == 204
    assert wire.get("/ds/agents").status == 404
