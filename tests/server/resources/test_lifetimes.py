"""Sliding and absolute lifetimes (§5.1), against the clock of the engine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.engine import Clock
from everbrook.server.assembly import open_storage
from everbrook.settings import StorageMode, TtlRule
from tests.kit.server_thread import configured
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire


class SetClock(Clock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ahead_secs = 0.0

    def now(self) -> int:
        return super().now() + int(self.ahead_secs * 1000)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def wire(start: Start, connect: Connect, clock: SetClock) -> Wire:
    return connect(start(clock=clock, server__long_poll_timeout_secs=0.01))


Touch = Callable[[Wire, str], object]

TOUCHES: dict[str, Touch] = {
    "read": lambda wire, path: wire.get(path),
    "read from now on": lambda wire, path: wire.get(f"{path}?offset=now"),
    "read that finds nothing modified": lambda wire, path: wire.get(path, if_none_match="*"),
    "long-poll": lambda wire, path: wire.get(f"{path}?offset=now&live=long-poll"),
    "append": lambda wire, path: wire.append(path, b"a"),
    "close": lambda wire, path: wire.request("POST", path, stream_closed="true"),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_reading_and_writing_begin_the_time_anew(wire: Wire, path: str, clock: SetClock, touch: Touch) -> None:
    wire.create(path, body=b"hello", stream_ttl="100")
    clock.ahead_secs = 60
    touch(wire, path)
    clock.ahead_secs = 120
    assert wire.request("HEAD", path).status == 200
    clock.ahead_secs = 170
    assert wire.request("HEAD", path).status == 404


def test_an_event_stream_begins_the_time_anew(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, body=b"hello", stream_ttl="100", stream_closed="true")
    clock.ahead_secs = 60
    assert len(wire.follow(f"{path}?offset=-1&live=sse").events()) == 2
    clock.ahead_secs = 120
    assert wire.request("HEAD", path).status == 200


def test_looking_does_not(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, stream_ttl="100")
    clock.ahead_secs = 60
    assert wire.request("HEAD", path).status == 200
    clock.ahead_secs = 120
    assert wire.get(path).refusal == (404, "stream_not_found")


def test_what_was_refused_does_not(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, stream_ttl="100")
    clock.ahead_secs = 60
    assert wire.append(path, b"a", "text/html").status == 409
    clock.ahead_secs = 120
    assert wire.get(path).status == 404


def test_a_duplicate_begins_the_time_anew(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, stream_ttl="100")
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    wire.append(path, b"a", **claim)
    clock.ahead_secs = 60
    assert wire.append(path, b"a", **claim).status == 204
    clock.ahead_secs = 120
    assert wire.get(path).status == 200


def test_an_absolute_expiry_never_moves(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, stream_expires_at="2099-01-01T00:00:00Z")
    clock.ahead_secs = 100 * 365 * 86400
    assert [wire.get(path).status, wire.append(path, b"a").status] == [404, 404]


def test_an_expired_path_is_free_at_once(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, body=b"old", stream_ttl="100")
    clock.ahead_secs = 101
    wire.create(path, "text/html", body=b"new")
    assert wire.get(path).body == b"new"


def test_reading_a_fork_does_not_keep_its_source(wire: Wire, path: str, clock: SetClock) -> None:
    wire.create(path, body=b"hello", stream_ttl="100")
    wire.create(f"{path}/fork", stream_forked_from=path)
    clock.ahead_secs = 60
    assert wire.get(f"{path}/fork").body == b"hello"
    clock.ahead_secs = 120
    assert wire.get(path).refusal == (410, "stream_gone")
    assert wire.get(f"{path}/fork").body == b"hello"


def test_the_longest_ttl_that_a_date_can_hold_works(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello", stream_ttl="250000000000")
    assert wire.get(path).headers["cache-control"].startswith("public, max-age=60")
    assert wire.request("HEAD", path).headers["stream-ttl"] == "250000000000"


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_a_fixed_ttl_moves_for_nobody_and_head_tells_what_remains(
    start: Start, connect: Connect, path: str, clock: SetClock, touch: Touch
) -> None:
    """The rule of earlier texts, by a setting."""
    wire = connect(start(clock=clock, server__ttl=TtlRule.FIXED, server__long_poll_timeout_secs=0.01))
    wire.create(path, body=b"hello", stream_ttl="100")
    clock.ahead_secs = 60
    touch(wire, path)
    head = wire.request("HEAD", path)
    assert (head.headers["stream-ttl"], "stream-expires-at" in head.headers) == ("40", False)
    clock.ahead_secs = 100
    assert wire.request("HEAD", path).status == 404


def test_a_fixed_ttl_is_kept_over_a_restart_and_a_change_of_the_rule(
    start: Start, connect: Connect, path: str, clock: SetClock, tmp_path: Path
) -> None:
    """A sliding one begins anew then."""
    values = {"storage__mode": StorageMode.ACID, "storage__data_dir": str(tmp_path)}
    before = start(open_storage(configured(**values)), clock=clock, server__ttl=TtlRule.FIXED, **values)
    connect(before).create(path, stream_ttl="100")
    before.stop()
    clock.ahead_secs = 60
    wire = connect(start(open_storage(configured(**values)), clock=clock, **values))
    assert wire.get(path).status == 200
    assert wire.request("HEAD", path).headers["stream-ttl"] == "40"
    clock.ahead_secs = 100
    assert wire.get(path).status == 404


def test_a_fixed_ttl_is_the_rule_of_each_transport(start_either: StartEither, path: str) -> None:
    with start_either(server__ttl=TtlRule.FIXED).connect() as wire:
        wire.create(path, stream_ttl="0")
        assert wire.get(path).status == 404
        wire.create(f"{path}/b", stream_ttl="100000")
        assert wire.request("PUT", f"{path}/b", content_type="text/plain", stream_ttl="100000").status == 200
