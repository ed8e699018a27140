"""Dead letters that their stream can't take: they are in the table, and stop nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.spark.connection import disconnect
from everbrook.spark.lake import dead_letters as letters
from everbrook.spark.lake.batches import BatchWriting, _tables
from everbrook.spark.lake.delta import open_table
from everbrook.spark.lake.messages import json_columns
from everbrook.spark.lake.tables import LakeOptions, Written
from everbrook.spark.lake.tasks import Work, write_rows
from everbrook.spark.options import ServerOptions
from tests.server.process import serving
from tests.spark.lake.rows import rows_of


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that takes little at once."""
    with serving(tmp_path_factory.mktemp("small"), DS_LIMITS__MAX_APPEND_BYTES="2000") as started:
        yield "http://{}:{}".format(*started.address)
        disconnect()


@pytest.mark.parametrize("size, in_stream, in_table", [(10, 1, 0), (3000, 0, 1)])
def test_a_letter_that_is_too_large_for_the_server_is_in_the_table(
    tmp_path: Path, small_server: str, size: int, in_stream: int, in_table: int
) -> None:
    options = LakeOptions(str(tmp_path / "table"))
    there = f"letters-of-{size}"
    to_stream = letters.DeadLetterOptions(there, ServerOptions(url=small_server))
    writing = BatchWriting(options, json_columns(()), to_stream)
    writing.prepare()
    rows, refused = _tables(options, "q")
    work = Work("q-0", str(rows.folder), str(refused.folder), rows.columns(), evolve=True, group=1, max_columns=9)
    for _ in range(2):
        report = write_rows(work, [rows_of("x" * size)])
        writing._put_aside("q", Written(0, letters.COLUMNS, report.letters), refused)  # noqa: SLF001
    with Client(small_server) as client:
        assert len(client.stream(there).read().all()) == in_stream
    assert open_table(options.folder / "_dead_letters").count_rows() == in_table
