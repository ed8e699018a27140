"""Listings against the plain rule: what is told, page by page, is what may be read, in the order of names."""

import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from everbrook.server.auth.scopes import Verb, allows, parse_scopes
from everbrook.server.tuning import AuthTuning, ServerTuning, WatchTuning
from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Wire

SEGMENTS = ["a", "a-", "a.", "a0", "ab", "b", "ä"]
LISTING = "/v1/stream/__ds/streams"


class Listed:
    """A server with many streams, and what a key is told of them."""

    def __init__(self, wire: Wire, keys: Keyring) -> None:
        self.wire = wire
        self.keys = keys
        root = keys.give("admin:/")
        paths = {f"{one}/{two}" for one in SEGMENTS for two in SEGMENTS} | set(SEGMENTS)
        self.names = sorted(paths, key=str.encode)
        for name in self.names:
            wire.create(f"/v1/stream/{quote(name)}", authorization=root)
        for bucket in ("aaaa", "aaab", "bbbb"):
            wire.request("PUT", f"/ds/{bucket}", authorization=root)

    def told(self, url: str, limit: int, key: str, prefix: str = "") -> list[str]:
        """Everything that is told, page by page."""
        found: list[str] = []
        after = ""
        while True:
            query = f"limit={limit}&prefix={quote(prefix)}&after={quote(after)}"
            answer = self.wire.get(f"{url}?{query}", authorization=key)
            page = msgspec.json.decode(answer.body)
            if answer.status == 403:
                return found
            found += [
                entry.get("stream_id") or entry["bucket_id"] for entry in page.get("streams", page.get("buckets"))
            ]
            if not page["has_more"]:
                return found
            after = page["next_cursor"]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listed]:
    keys = Keyring(Path(tmp_path_factory.mktemp("keys")))
    settings = configured(auth__api_keys_path=str(keys.path))
    tuning = ServerTuning(auth=AuthTuning(watch=WatchTuning(look_secs=0.0)))
    with RunningServer(settings, tuning=tuning) as server, server.connect() as wire:
        yield Listed(wire, keys)


@pytest.mark.parametrize("seed", range(40))
def test_a_listing_tells_what_may_be_read(listed: Listed, seed: int) -> None:
    chance = random.Random(seed)
    chosen = chance.sample(listed.names, chance.randint(1, 5))
    scopes = " ".join(f"{chance.choice(['read', 'admin', 'append'])}:/v1/stream/{quote(name)}" for name in chosen)
    prefix = chance.choice(["", "", "a", "a/", "ab", "ä", "b/a"])
    told = listed.told(LISTING, chance.randint(1, 7), listed.keys.give(scopes), prefix)
    grants = parse_scopes(scopes)
    readable = [name for name in listed.names if allows(grants, Verb.READ, f"/v1/stream/{name}".encode())]
    assert told == [name for name in readable if name.startswith(prefix)]


@pytest.mark.parametrize(
    "scopes, told",
    [
        ("admin:/", ["aaaa", "aaab", "bbbb"]),
        ("read:/ds", ["aaaa", "aaab", "bbbb"]),
        ("read:/ds/bbbb admin:/ds/aaaa", ["aaaa", "bbbb"]),
        ("read:/ds/aaaa/stream read:/ds/cccc append:/ds/bbbb read:/ds/aaab", ["aaab"]),
        ("read:/v1/stream", []),
    ],
)
def test_the_list_of_buckets_tells_what_may_be_read(listed: Listed, scopes: str, told: list[str]) -> None:
    assert listed.told("/ds", 1, listed.keys.give(scopes)) == told
