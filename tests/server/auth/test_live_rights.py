"""Live reads end when the right to read does: with their token, and soon after a key was revoked."""

import time

import pytest

from everbrook.server.tuning import AuthTuning, ServerTuning, WatchTuning
from tests.kit.asgi_mount import Mounted
from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither

PATH = "/v1/stream/chats/1"
SCOPES = "read+create+append:/v1/stream/chats"

Server = RunningServer | Mounted


@pytest.fixture
def guarded(start_either: StartEither, keys: Keyring) -> Server:
    """A server that looks at keys and rights more often than others do."""
    tuning = ServerTuning(auth=AuthTuning(recheck_secs=0.2, watch=WatchTuning(look_secs=0.0)))
    server = start_either(tuning=tuning, auth__api_keys_path=str(keys.path))
    with server.connect() as wire:
        wire.create(PATH, authorization=keys.give(SCOPES))
    return server


def _lasting(keys: Keyring, secs: int = 2) -> tuple[str, float]:
    """A key that is good for a moment, and when it ends: keys end with whole seconds."""
    return keys.give(SCOPES, secs), float(int(time.time() + secs))


@pytest.mark.timing
def test_an_event_stream_ends_with_its_token(guarded: Server, connect: Connect, keys: Keyring) -> None:
    key, ends_at = _lasting(keys)
    follower = connect(guarded).follow(f"{PATH}?live=sse&offset=-1", authorization=key)
    assert follower.events()
    assert abs(time.time() - ends_at) < 1.5


def test_an_event_stream_ends_after_a_whole_event(guarded: Server, connect: Connect, keys: Keyring) -> None:
    key, _ = _lasting(keys)
    follower = connect(guarded).follow(f"{PATH}?live=sse&offset=-1", authorization=key)
    connect(guarded).append(PATH, b"last words", authorization=keys.give(SCOPES))
    assert [event.data for event in follower.events() if event.type == b"data"] == [b"last words"]


def test_a_reader_that_comes_back_is_refused(guarded: Server, connect: Connect, keys: Keyring) -> None:
    key, _ = _lasting(keys, 1)
    wire = connect(guarded)
    wire.follow(f"{PATH}?live=sse&offset=-1", authorization=key).events()
    assert wire.get(f"{PATH}?live=sse&offset=-1", authorization=key).status == 401


@pytest.mark.timing
def test_a_long_poll_ends_with_its_token(guarded: Server, connect: Connect, keys: Keyring) -> None:
    key, ends_at = _lasting(keys)
    wire = connect(guarded)
    assert wire.get(f"{PATH}?live=long-poll&offset=now", authorization=key).status == 204
    assert abs(time.time() - ends_at) < 1.5
    assert wire.get(f"{PATH}?live=long-poll&offset=now", authorization=key).status == 401


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_live_read_ends_soon_after_its_key_was_revoked(
    guarded: Server, connect: Connect, keys: Keyring, live: str
) -> None:
    key = keys.give(SCOPES)
    connect(guarded).ask("GET", f"{PATH}?live={live}&offset=now", authorization=key)
    assert eventually(lambda: guarded.waiting(PATH) == 1)
    keys.revoke(key)
    assert eventually(lambda: guarded.waiting(PATH) == 0)


def test_a_key_is_refused_at_once_after_a_reload(start: Start, connect: Connect, keys: Keyring) -> None:
    key = keys.give(SCOPES)
    tuning = ServerTuning(auth=AuthTuning(watch=WatchTuning(look_secs=1000.0)))
    server = start(tuning=tuning, auth__api_keys_path=str(keys.path))
    wire = connect(server)
    wire.create(PATH, authorization=key)
    keys.revoke(key)
    assert wire.get(PATH, authorization=key).status == 200
    server.call(lambda: [reload() for reload in server.application.on_reload])
    assert wire.get(PATH, authorization=key).status == 401


def test_others_read_on(guarded: Server, connect: Connect, keys: Keyring) -> None:
    revoked, kept = keys.give(SCOPES), keys.give(SCOPES)
    gone = connect(guarded).follow(f"{PATH}?live=sse&offset=now", authorization=revoked)
    stays = connect(guarded).follow(f"{PATH}?live=sse&offset=now", authorization=kept)
    keys.revoke(revoked)
    gone.events()
    connect(guarded).append(PATH, b"for those who stay", authorization=kept)
    assert stays.data() == b"for those who stay"


def test_a_long_poll_that_was_answered_is_not_looked_after(guarded: Server, connect: Connect, keys: Keyring) -> None:
    """What ends by itself leaves nothing behind that wakes up later."""
    key = keys.give(SCOPES)
    wire = connect(guarded)
    wire.ask("GET", f"{PATH}?live=long-poll&offset=now", authorization=key)
    assert eventually(lambda: guarded.waiting(PATH) == 1)
    connect(guarded).append(PATH, b"x", authorization=key)
    assert wire.read().body == b"x"
    keys.revoke(key)
    time.sleep(0.5)
    assert wire.get(PATH, authorization=keys.give(SCOPES)).body == b"x"
