"""A body that comes slowly is taken only if its sender still has the right to it when it is whole."""

import pytest

from everbrook.server.tuning import AuthTuning, ServerTuning, WatchTuning
from tests.kit.keyring import Keyring
from tests.kit.servers import Connect, StartEither
from tests.kit.wire import Wire
from tests.server.uploads.blobs import Server, none_left

PATH = "/v1/stream/chats/1"
URL = f"{PATH}/__ds/snapshot/{len('history'):016d}"
SCOPES = "read+append+delete:/v1/stream/chats"


@pytest.fixture
def root(keys: Keyring) -> str:
    return keys.give("admin:/")


@pytest.fixture
def key(keys: Keyring) -> str:
    return keys.give(SCOPES)


@pytest.fixture
def guarded(start_either: StartEither, keys: Keyring, root: str, key: str) -> Server:
    """A server that looks at keys whenever it is asked, and a stream in it."""
    assert key != root
    tuning = ServerTuning(auth=AuthTuning(watch=WatchTuning(look_secs=0.0)))
    server = start_either(tuning=tuning, auth__api_keys_path=str(keys.path))
    with server.connect() as wire:
        wire.create(PATH, body=b"history", authorization=root)
    return server


@pytest.fixture
def begun(guarded: Server, connect: Connect, key: str) -> Wire:
    """An upload that was found welcome, of which a half has come."""
    wire = connect(guarded).ask("PUT", URL, authorization=key, content_length="10", expect="100-continue")
    assert wire.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
    return wire.send(b"hello")


def test_a_body_whose_key_was_revoked_meanwhile_is_refused(begun: Wire, keys: Keyring, key: str) -> None:
    keys.revoke(key)
    answer = begun.send(b"world").read()
    assert answer.refusal == (401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_nothing_of_a_body_that_lost_its_right_is_kept(
    guarded: Server, begun: Wire, connect: Connect, keys: Keyring, key: str, root: str
) -> None:
    keys.revoke(key)
    begun.send(b"world").read()
    assert none_left(guarded)
    wire = connect(guarded)
    assert wire.get(URL, authorization=root).status == 404
    assert wire.get(f"{PATH}?offset=-1", authorization=root).body == b"history"


def test_a_body_whose_key_is_good_to_its_end_is_taken(begun: Wire, keys: Keyring, key: str) -> None:
    keys.revoke(keys.give(SCOPES))
    assert begun.send(b"world").read().status == 204
    assert begun.get(URL, authorization=key).body == b"helloworld"
