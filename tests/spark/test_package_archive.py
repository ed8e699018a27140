"""The package on its way to workers: what is sent, and what is said where it is missing."""

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark import cloudpickle

from everbrook.spark import EverbrookDataSource
from everbrook.spark.arrival import as_function
from everbrook.spark.options import ServerOptions, SinkOptions
from everbrook.spark.package_archive import write_archive
from everbrook.spark.streams.appender import Producer
from everbrook.spark.streams.messages import layout_of
from everbrook.spark.streams.rows import RAW
from everbrook.spark.streams.stream_query import StreamTaskWriter
from everbrook.spark.streams.writer import StreamWriter
from tests.spark.cluster import bare_python

LOAD = "import sys; from pyspark import cloudpickle; found = cloudpickle.loads(sys.stdin.buffer.read()); "


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without the package."""
    return bare_python(tmp_path_factory.mktemp("bare") / "python")


def run(python: str, code: str, sent: object, path: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {} if path is None else {"PYTHONPATH": str(path)}
    pickled: bytes = cloudpickle.dumps(sent)  # type: ignore[no-untyped-call]
    return subprocess.run(
        [python, "-c", LOAD + code], input=pickled, env=environment, capture_output=True, timeout=60, check=False
    )


def test_the_archive_holds_all_that_the_connector_loads(python: str, tmp_path: Path) -> None:
    with ZipFile(write_archive(tmp_path / "everbrook.zip")) as archive:
        archive.extractall(tmp_path / "files" / "everbrook")
    code = "from everbrook.spark import ProgressListener, write_stream; print(found.__module__)"
    ran = run(python, code, EverbrookDataSource, tmp_path / "files")
    assert (ran.stdout, ran.stderr) == (b"everbrook.spark.streams.stream_source\n", b"")


def test_a_class_that_arrives_where_nothing_is_says_what_to_do(python: str) -> None:
    ran = run(python, "", EverbrookDataSource)
    assert f"the Python of a Spark worker, {python} ".encode() in ran.stderr
    assert b"No module named 'everbrook'" in ran.stderr
    assert b"ship=True" in ran.stderr


def test_what_tasks_get_says_it_too(python: str) -> None:
    sink = SinkOptions(server=ServerOptions(), stream="a")
    task = StreamTaskWriter(sink, layout_of(RAW["string"], sink), Producer("p", 0))
    for sent in (StreamWriter(sink, RAW["string"], overwrite=False), as_function(task)):
        assert b"ship=True" in run(python, "", sent).stderr
