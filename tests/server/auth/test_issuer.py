"""Keys of an issuer: fetched beside the requests, kept while the issuer is down, and not asked for by strangers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from everbrook.protocol.errors import Unavailable
from everbrook.server.auth.issuer import FetchedKeys, FileKeys
from everbrook.server.auth.jwks import MAX_SET_BYTES, parse_key_set
from everbrook.server.auth.key_pair import ALGORITHMS
from everbrook.server.tuning import AUTH_TUNING, IssuerTuning
from tests.kit.issuer_server import Issuer, jwks, pair_of

parse = partial(parse_key_set, algorithms=ALGORITHMS)
LOGGER = "everbrook.server.auth.issuer"
OLD, NEW = pair_of("ES256", "old"), pair_of("ES256", "new")


class Watch:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(OLD) as running:
        yield running


@asynccontextmanager
async def fetching(
    issuer: Issuer, watch: Watch, refresh_secs: float = 300.0, tuning: IssuerTuning = AUTH_TUNING.issuer
) -> AsyncIterator[FetchedKeys]:
    keys = FetchedKeys(issuer.url, parse, refresh_secs, tuning, watch)
    try:
        await keys.begin()
        yield keys
    finally:
        await keys.close()


async def found(keys: FetchedKeys, kid: str, within_secs: float = 5.0) -> bool:
    """Whether a key is there in good time."""
    async with asyncio.timeout(within_secs):
        while True:
            try:
                return keys.find(kid, "ES256") is not None
            except Unavailable:
                await asyncio.sleep(0.005)


async def reach(issuer: Issuer, number: int) -> None:
    """Wait for so many fetches in all."""
    for _ in range(2000):
        if issuer.fetches >= number:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"there were {issuer.fetches} fetches, not {number}")


async def fetches(issuer: Issuer, number: int) -> bool:
    """Wait for so many fetches in all, and tell whether no more follow."""
    await reach(issuer, number)
    await asyncio.sleep(0.05)
    return issuer.fetches == number


def test_the_keys_are_there_when_the_start_is_over(issuer: Issuer) -> None:
    async def run() -> None:
        async with fetching(issuer, Watch()) as keys:
            assert keys.find("old", "ES256") is not None

    asyncio.run(run())


def test_a_new_key_is_fetched_when_a_token_names_it(issuer: Issuer) -> None:
    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch) as keys:
            issuer.publish(OLD, NEW)
            watch.now += 61
            with pytest.raises(Unavailable, match="not known yet"):
                keys.find("new", "ES256")
            watch.now += 1
            assert await found(keys, "new")
            assert keys.generation == 2

    asyncio.run(run())


def test_a_key_that_the_issuer_does_not_have_is_unknown_once_it_was_asked(issuer: Issuer) -> None:
    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch) as keys:
            watch.now += 61
            with pytest.raises(Unavailable):
                keys.find("strange", "ES256")
            watch.now += 1
            assert not await found(keys, "strange")

    asyncio.run(run())


def test_a_flood_of_unknown_keys_is_one_fetch_a_minute(issuer: Issuer) -> None:
    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch) as keys:
            for number in range(5000):
                watch.now += 0.012  # one minute in all, so one fetch
                with pytest.raises(Unavailable):
                    keys.find(f"strange-{number}", "ES256")
                if number % 100 == 0:
                    await asyncio.sleep(0.001)
            watch.now += 1
            with pytest.raises(Unavailable):
                keys.find("last", "ES256")
            assert await fetches(issuer, 2)
            assert len(keys.inspect().missed) == AUTH_TUNING.issuer.max_missed

    asyncio.run(run())


def test_a_known_key_with_a_wrong_algorithm_asks_for_nothing(issuer: Issuer) -> None:
    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch) as keys:
            watch.now += 1000
            assert keys.find("old", "RS256") is None
            assert await fetches(issuer, 1)

    asyncio.run(run())


def test_the_known_keys_stay_while_the_issuer_is_down(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with fetching(issuer, Watch(), refresh_secs=0.02) as keys:
            issuer.stop()
            await asyncio.sleep(0.1)
            assert keys.find("old", "ES256") is not None
            assert keys.generation == 1

    asyncio.run(run())
    assert [record.levelno for record in caplog.records if record.name == LOGGER] == [logging.WARNING]


def test_a_start_with_the_issuer_down_ends_and_the_keys_come_with_the_issuer(issuer: Issuer) -> None:
    issuer.stop()

    async def run() -> None:
        async with fetching(issuer, Watch(), tuning=IssuerTuning(retry_secs=(0.02,))) as keys:
            with pytest.raises(Unavailable, match="could not be fetched yet"):
                keys.find("old", "ES256")
            issuer.start()
            assert await found(keys, "old")

    asyncio.run(run())


def test_a_slow_issuer_delays_the_start_by_a_bounded_time(issuer: Issuer) -> None:
    async def run() -> None:
        async with fetching(issuer, Watch(), tuning=IssuerTuning(timeout_secs=0.05)) as keys:
            with pytest.raises(Unavailable):
                keys.find("old", "ES256")

    with issuer.silent():
        asyncio.run(run())


@pytest.mark.parametrize("wrong", ["status", "redirect", "text", "size", "empty"])
def test_a_wrong_answer_takes_nothing_away(issuer: Issuer, wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with fetching(issuer, Watch(), refresh_secs=0.02, tuning=IssuerTuning(retry_secs=(0.02,))) as keys:
            elsewhere = {"Location": issuer.url}
            issuer.status, issuer.headers = {"status": (500, {}), "redirect": (302, elsewhere)}.get(wrong, (200, {}))
            answers = {"text": b"<html>", "size": b" " * (MAX_SET_BYTES + 1), "empty": b'{"keys": []}'}
            issuer.body = answers.get(wrong, issuer.body)
            # The second fetch from here on begins when the first has been judged.
            await reach(issuer, issuer.fetches + 2)
            assert keys.find("old", "ES256") is not None
            assert keys.generation == 1

    asyncio.run(run())
    assert [record.levelno for record in caplog.records if record.name == LOGGER] == [logging.WARNING]


def test_a_key_that_is_withdrawn_is_gone_after_the_next_fetch(issuer: Issuer) -> None:
    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch) as keys:
            issuer.publish(NEW)
            keys.reload()
            assert await fetches(issuer, 2)
            watch.now += 0.1
            assert keys.find("new", "ES256") is not None
            assert keys.find("old", "ES256") is None

    asyncio.run(run())


def test_strangers_do_not_make_a_withdrawn_key_new_again(issuer: Issuer) -> None:
    few = IssuerTuning(max_missed=10, max_withdrawn=10)

    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch, tuning=few) as keys:
            issuer.publish(NEW)
            keys.reload()
            assert await fetches(issuer, 2)
            watch.now += 0.1
            for number in range(few.max_missed + few.max_withdrawn):
                with pytest.raises(Unavailable):
                    keys.find(f"strange-{number}", "ES256")
            assert keys.find("old", "ES256") is None

    asyncio.run(run())


def test_a_withdrawn_key_that_comes_back_is_known(issuer: Issuer) -> None:
    async def run() -> None:
        watch = Watch()
        async with fetching(issuer, watch) as keys:
            for number, pairs in enumerate([[NEW], [OLD, NEW]], 2):
                issuer.publish(*pairs)
                keys.reload()
                assert await fetches(issuer, number)
                watch.now += 1
            assert keys.find("old", "ES256") is not None
            assert not keys.inspect().withdrawn

    asyncio.run(run())


def test_no_more_withdrawn_keys_are_remembered_than_may_be(issuer: Issuer) -> None:
    async def run() -> None:
        async with fetching(issuer, Watch(), tuning=IssuerTuning(max_withdrawn=1)) as keys:
            for number, name in enumerate(["second", "third"], 2):
                issuer.publish(pair_of("ES256", name))
                keys.reload()
                assert await fetches(issuer, number)
            assert keys.inspect().withdrawn == ("second",)

    asyncio.run(run())


def test_the_same_set_again_is_no_new_generation(issuer: Issuer) -> None:
    async def run() -> None:
        async with fetching(issuer, Watch()) as keys:
            keys.reload()
            assert await fetches(issuer, 2)
            assert keys.generation == 1

    asyncio.run(run())


def test_a_secret_in_the_query_of_the_url_is_not_logged(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        keys = FetchedKeys(issuer.url + "?api_key=hunter2", parse, 300.0)
        issuer.status = 403
        await keys.begin()
        await keys.close()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    assert [record for record in caplog.records if record.name == LOGGER]
    assert not [record for record in caplog.records if "hunter2" in record.getMessage()]


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(jwks(OLD))
    keys = FileKeys(str(path), parse)
    path.write_bytes(jwks(OLD, NEW))
    keys.reload()
    assert keys.find("new", "ES256") is not None
    assert keys.generation == 1
