"""The producer that batch writes share: each batch is stored once, whatever happens between its appends."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from everbrook import Client
from everbrook.spark.connection import Connection, Post, connect, disconnect
from everbrook.spark.options import ServerOptions
from everbrook.spark.streams.batch import (
    PRODUCER_ID,
    BatchUncertain,
    Progress,
    append_batch,
    parse_progress,
)
from tests.kit.server_process import serving
from tests.spark.connections import Wrapped


@pytest.fixture(scope="module")
def frugal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose streams remember two producers."""
    with serving(tmp_path_factory.mktemp("frugal"), DS_LIMITS__MAX_PRODUCERS_PER_STREAM="2") as started:
        yield "http://{}:{}".format(*started.address)
        disconnect()


def posts(*numbers: int) -> list[Post]:
    return [Post(b"[%d]" % number, {"Content-Type": "application/json"}) for number in numbers]


def between() -> list[Post]:
    return posts(-1, -1)


class Losing(Wrapped):
    """A connection that loses answers: it sends some appends twice, with other batches between the two."""

    def __init__(self, inner: Connection, random: Random) -> None:
        super().__init__(inner)
        self._inner = inner
        self._random = random

    def post_all(self, name: str, posts: Sequence[Post]) -> bool:
        sent = self._random.randrange(len(posts) + 1)
        if sent:
            super().post_all(name, posts[:sent])
        if self._random.random() < 0.5:
            append_batch(self._inner, name, f"between-{self._random.randrange(10**9)}", between())
        return super().post_all(name, posts)


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_whose_answers_are_lost_is_there_once(
    client: Client, connection: Connection, prefix: str, seed: int
) -> None:
    client.stream(f"{prefix}a").create()
    append_batch(Losing(connection, Random(seed)), f"{prefix}a", "own", posts(*range(6)))
    assert [value for value in client.stream(f"{prefix}a").read().all() if value >= 0] == list(range(6))


def test_batches_that_are_written_at_once_are_there_once_each(
    client: Client, connection: Connection, prefix: str
) -> None:
    client.stream(f"{prefix}a").create()
    with ThreadPoolExecutor(8) as pool:
        done = [
            pool.submit(append_batch, connection, f"{prefix}a", f"batch-{number}", posts(*[number] * 10))
            for number in range(8)
        ]
        for each in done:
            each.result()
    assert sorted(client.stream(f"{prefix}a").read().all()) == sorted([*range(8)] * 10)


def test_any_number_of_batches_is_one_producer(frugal: str) -> None:
    with Client(frugal) as client:
        stream = client.stream("many")
        stream.create()
        for number in range(5):
            append_batch(connect(ServerOptions(url=frugal)), "many", f"batch-{number}", posts(number))
        assert stream.read().all() == list(range(5))


def test_a_batch_whose_stream_was_created_anew_is_not_taken_for_written(
    client: Client, connection: Connection, prefix: str
) -> None:
    class Deleting(Wrapped):
        calls = 0

        def post_all(self, name: str, posts: Sequence[Post]) -> bool:
            self.calls += 1
            if self.calls == 1:
                super().post_all(name, posts[:1])
                append_batch(connection, name, "other", between())
            else:
                client.stream(name).delete()
                client.stream(name).create()
            return super().post_all(name, posts)

    client.stream(f"{prefix}a").create()
    with pytest.raises(BatchUncertain, match=r"created anew, .* 1 of its 3 appends were certainly stored"):
        append_batch(Deleting(connection), f"{prefix}a", "own", posts(1, 2, 3))


def test_progress_is_written_and_read_and_fits_in_a_position() -> None:
    progress = Progress()
    for number in range(40):
        progress = progress.reached(f"spark-{number:016x}", 9_999_999)
    assert parse_progress(str(progress)) == progress
    assert (len(progress.entries), len(str(progress)) <= 1024) == (32, True)
    assert (progress.of(f"spark-{39:016x}"), progress.of(f"spark-{0:016x}")) == (9_999_999, 0)
    assert PRODUCER_ID.isascii()
