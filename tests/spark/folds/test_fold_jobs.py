"""Folds as jobs of a pipeline."""

from pathlib import Path
from urllib.request import urlopen

import pytest

from everbrook import Client
from everbrook.client import state_events
from everbrook.spark.jobs.load import load
from everbrook.spark.jobs.metrics import Metrics
from everbrook.spark.jobs.model import InvalidJobs
from everbrook.spark.jobs.sources import FoldSource
from everbrook.spark.jobs.status import Board
from tests.spark.folds.histories import bootstrapped, replayed, written
from tests.spark.jobs.pipelines import running

ADA = state_events.insert("user", "1", "Ada")
JOB = """
[server]
url = "{url}"
[jobs.fold]
source = {{ {source} }}
sink = {{ stream = "{sink}" }}
trigger = "available-now"
"""


def _file(folder: Path, source: str, sink: str = "folds", url: str = "http://127.0.0.1:4437") -> Path:
    file = folder / "jobs.toml"
    file.write_text(JOB.format(url=url, source=source, sink=sink))
    return file


def _complaint(folder: Path, source: str, sink: str = "folds") -> str:
    with pytest.raises(InvalidJobs) as caught:
        load(_file(folder, source, sink), {})
    return str(caught.value).partition("jobs.toml: ")[2]


def test_a_fold_is_told_from_a_stream_by_its_key(tmp_path: Path) -> None:
    source = 'pattern = "sessions/**", fold = true, when_log_is = 10, every = "1h", history = "drop"'
    job = load(_file(tmp_path, source), {}).jobs["fold"]
    assert isinstance(job.source, FoldSource)
    assert job.describe() == "folds of streams sessions/** → stream folds"


@pytest.mark.parametrize(
    "source, words",
    [
        ("fold = true", "jobs.fold.source: which streams? Give one of stream, streams, prefix, pattern or bucket"),
        ('fold = false, stream = "a"', "jobs.fold.source: fold must be true, or name a function"),
        ('fold = "f", stream = "a"', "jobs.fold.source: fold must name a module and a function in it"),
        ('fold = 1, stream = "a"', "jobs.fold.source.fold: must be true or false or a text that is not empty, got 1"),
        ('fold = true, stream = "a", when_log_is = 0', "jobs.fold.source.when_log_is: must be a number above 0, got 0"),
        ('fold = true, stream = "a", every = "soon"', "jobs.fold.source: every must be a number and a unit, such as"),
        ('fold = true, stream = "a", histroy = "drop"', "jobs.fold.source.histroy: there is no such key; did you mean"),
        ('fold = true, stream = "a", history = "cut"', 'jobs.fold.source.history: must be "drop" or "keep", got'),
        (
            'fold = true, stream = "a", dead_letters = "b"',
            "jobs.fold.source: dead_letters is for messages that are left",
        ),
        ('fold = true, stream = "a", tables = ["b"]', "jobs.fold.source: fold and tables contradict each other"),
        ('fold = true, pattern = "*"', "jobs.fold: it reads what it writes, without end: the stream folds of"),
    ],
)
def test_mistakes_are_told_with_their_key(tmp_path: Path, source: str, words: str) -> None:
    assert _complaint(tmp_path, source).startswith(words)


def test_two_jobs_have_dead_letters_of_their_own(tmp_path: Path) -> None:
    keys = 'fold = true, stream = "a", invalid = "skip", dead_letters = "letters"'
    file = _file(tmp_path, keys)
    file.write_text(f"{file.read_text()}\n[jobs.again]\nsource = {{ {keys} }}\nsink = {{ stream = 'b' }}")
    with pytest.raises(
        InvalidJobs, match=r"jobs\.again\.source: the stream letters of .* is that of jobs\.fold already"
    ):
        load(file, {})


def test_what_became_of_streams_is_a_metric() -> None:
    board = Board([("fold", "a → b")])
    metrics = Metrics(board)
    port = metrics.serve("127.0.0.1:0")
    board.add("fold", folds={"published": 2, "refused": 1, "gone": 0}, folded_bytes=100, snapshot_bytes=7)
    board.add("fold", folds={"published": 3}, folded_bytes=10, snapshot_bytes=1)
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = set(answer.read().decode().splitlines())
    metrics.close()
    assert {
        'everbrook_job_folds_total{job="fold",outcome="published"} 5.0',
        'everbrook_job_folds_total{job="fold",outcome="refused"} 1.0',
        'everbrook_job_folded_bytes_total{job="fold"} 110.0',
        'everbrook_job_snapshot_bytes_total{job="fold"} 8.0',
    } <= lines


def test_the_lag_is_what_no_snapshot_stands_for(server: str, client: Client, prefix: str, tmp_path: Path) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    first = stream.head().offset
    stream.append(ADA)
    stream.publish(b"[]", offset=first, keep_history=True)
    job = load(_file(tmp_path, f'fold = true, prefix = "{prefix}"', url=server), {}).jobs["fold"]
    assert job.source.lag_finder(job)(None).lag_bytes == int(stream.head().offset) - int(first)


def test_a_pipeline_folds_and_tells_of_it(server: str, client: Client, prefix: str, tmp_path: Path) -> None:
    stream = written(client, f"{prefix}in/a", [ADA] * 5)
    written(client, f"{prefix}in/b", [{"x": 1}])
    file = _file(tmp_path, f'fold = true, pattern = "{prefix}in/*"', f"{prefix}folds", server)
    with running(file) as pipeline:
        assert pipeline.ended() == 0
    assert bootstrapped(stream) == {"user": {"1": "Ada"}}
    reports = replayed(client.stream(f"{prefix}folds"))["fold"]
    assert {name: report["outcome"] for name, report in reports.items()} == {
        f"{prefix}in/a": "published",
        f"{prefix}in/b": "refused",
    }
    told = replayed(client.stream("pipeline-progress"))["job"]["fold"]
    assert (told["rows"], told["folds"], told["folded_bytes"]) == (
        2,
        {"published": 1, "refused": 1},
        int(stream.head().offset),
    )
