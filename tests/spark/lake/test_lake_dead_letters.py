"""Dead letters that are too large for their stream: they are cut, and the query continues."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.spark.connection import disconnect
from everbrook.spark.lake.delta import open_table
from everbrook.spark.lake.lake_query import LakeBatchWriter, _tables
from everbrook.spark.lake.lake_table import BatchFiles, LakeOptions
from everbrook.spark.lake.lake_task import LETTER_COLUMNS, LakeTaskWriter, Work
from everbrook.spark.lake.message_fields import json_columns
from everbrook.spark.options import ServerOptions
from everbrook.spark.sinks.dead_letters import DeadLetterOptions
from tests.kit.lake_rows import rows_of
from tests.kit.server_process import serving


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that takes little at once."""
    with serving(tmp_path_factory.mktemp("small"), DS_LIMITS__MAX_APPEND_BYTES="2000") as started:
        yield "http://{}:{}".format(*started.address)
        disconnect()


def test_letters_are_in_their_stream_once_and_those_that_are_too_large_are_cut(
    tmp_path: Path, small_server: str
) -> None:
    options = LakeOptions(str(tmp_path / "table"))
    to_stream = DeadLetterOptions(stream="letters", server=ServerOptions(url=small_server))
    writing = LakeBatchWriter(options, json_columns(()), to_stream)
    writing.prepare()
    rows, refused = _tables(options, "q")
    work = Work("q-0", str(rows.folder), str(refused.folder), rows.columns(), evolve=True, group=1, max_columns=9)
    for _ in range(2):
        written = LakeTaskWriter(work).write_rows([rows_of("small", "x" * 3000, "last")])
        writing._put_aside("q", BatchFiles(0, LETTER_COLUMNS, written.letters), refused)  # noqa: SLF001
    with Client(small_server) as client:
        found = client.stream("letters").read().all()
    assert [letter.get("payload_bytes") for letter in found] == [None, 3002, None]
    assert open_table(options.folder / "_dead_letters").count_rows() == 0
