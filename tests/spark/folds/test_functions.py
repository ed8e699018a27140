"""Functions of users that fold other things than changes."""

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from msgspec.structs import replace

from everbrook import Client
from everbrook.client import ConnectionBroken
from everbrook.protocol.errors import StreamNotFound
from everbrook.spark import Folded
from everbrook.spark.connection import Connection
from everbrook.spark.folds.fold_requests import Log, Opening
from everbrook.spark.folds.fold_task import Function, Steps, load_function
from everbrook.spark.folds.plan import Plan
from everbrook.spark.options import InvalidOption
from tests.spark.folds.compactors import Compactor
from tests.spark.folds.histories import written


def _longest(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
    found = state or b""
    for batch in batches:
        found = max([found, *batch.column("value").to_pylist()], key=len)
    return found


def test_a_function_folds_anything(server: str, client: Client, prefix: str) -> None:
    stream = client.stream(f"{prefix}a")
    stream.create(content_type="text/plain", data="four")
    compactor = Compactor(server, _longest, stream=stream.name)
    found = []
    for text in ("seventeen", "two"):
        stream.append(text)
        assert compactor.outcomes() == {stream.name: "published"}
        snapshot = stream.snapshot()
        assert snapshot is not None
        found.append((snapshot.data, snapshot.content_type))
    assert found == [(b"seventeen", "text/plain")] * 2


def test_a_function_gets_offsets_and_times(server: str, client: Client, prefix: str) -> None:
    written(client, f"{prefix}a", [1, 23])

    def told(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> Folded:
        (rows,) = [batch.to_pylist() for batch in batches]
        assert all(row["appended_at"].year > 2000 for row in rows)
        return Folded(
            str([(row["offset"][-1], row["next_offset"][-1], row["value"]) for row in rows]).encode(), "text/x"
        )

    Compactor(server, told, stream=f"{prefix}a").fold()
    snapshot = client.stream(f"{prefix}a").snapshot()
    assert snapshot is not None
    assert (snapshot.data, snapshot.content_type) == (b"[('0', '2', b'1'), ('2', '5', b'23')]", "text/x")


def _fails(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
    raise KeyError("tea")


def _hurries(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
    return b"all of it"


def _forgets(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
    return list(batches)  # type: ignore[return-value]


def _gives(folded: Folded) -> Function:
    def give(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> Folded:
        list(batches)
        return folded

    return give


def _asks(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
    raise StreamNotFound("of another stream")


@pytest.mark.parametrize(
    "function, words",
    [
        (_asks, "its function failed: StreamNotFound: of another stream"),
        (_gives(Folded("text")), "the data of a Folded must be bytes, got str"),  # type: ignore[arg-type]
        (_gives(Folded(b"", "plain")), "the content type of a Folded must be a media type, got 'plain'"),
        (_gives(Folded(b"", "tëxt/x")), "the content type of a Folded must be a media type, got 'tëxt/x'"),
        (_fails, "its function failed: KeyError: 'tea'"),
        (_hurries, "its function gave a snapshot before it had taken all messages"),
        (_forgets, "its function must give bytes or Folded, got list"),
    ],
)
def test_a_function_that_goes_wrong_refuses_its_stream(
    server: str, client: Client, prefix: str, function: Function, words: str
) -> None:
    written(client, f"{prefix}a", [1])
    (report,) = Compactor(server, function, stream=f"{prefix}a").fold().values()
    assert (report["outcome"], report["error"]) == ("refused", words)


def test_a_function_that_passes_over_a_broken_connection_publishes_nothing(
    server: str, client: Client, prefix: str
) -> None:
    stream = written(client, f"{prefix}a", [1])

    def careless(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
        with suppress(Exception):
            list(batches)
        return b"what there was"

    def interrupt(_page: object) -> object:
        raise ConnectionBroken("in the middle of a page")

    class Interrupted(Steps):
        def read(self, connection: Connection, plan: Plan, opening: Opening) -> Log:
            log = super().read(connection, plan, opening)
            return replace(log, pages=map(interrupt, log.pages))

    compactor = Compactor(server, careless, stream=stream.name)
    compactor.steps = Interrupted()
    with pytest.raises(ConnectionBroken):
        compactor.fold()
    assert stream.snapshot() is None


@pytest.mark.parametrize(
    "name, words",
    [
        ("nowhere.at_all:fold", "nowhere.at_all can't be imported here"),
        ("json:fold", "json has no fold"),
        ("json:__name__", "which can't be called: it is str"),
    ],
)
def test_a_name_that_is_no_function_is_told(name: str, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        load_function(name)


def test_a_function_is_found_by_its_name(server: str, client: Client, prefix: str) -> None:
    written(client, f"{prefix}a", [1])
    (report,) = Compactor(server, stream=f"{prefix}a", function="operator:contains").fold().values()
    assert report["error"].startswith("its function failed: TypeError: argument of type 'NoneType'")
