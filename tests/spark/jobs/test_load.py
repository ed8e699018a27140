"""A file of jobs: what it may say, and how a mistake in it is told."""

from itertools import pairwise
from pathlib import Path

import pytest

from everbrook.spark.jobs.load import choose, load
from everbrook.spark.jobs.model import InvalidJobs, Pipeline, PipelineMissing

GOOD = """
[server]
url = "http://127.0.0.1:4437"
[postgres]
url = "${POSTGRES_URL:-postgresql://ada:secret@db.test/streams}"
[jobs.copy]
source = { stream = "orders" }
sink = { stream = "copy" }
"""


def loaded(folder: Path, text: str, **environ: str) -> Pipeline:
    file = folder / "jobs.toml"
    file.write_text(text)
    return load(file, environ)


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(InvalidJobs) as caught:
        loaded(folder, text)
    return str(caught.value).removeprefix(f"{folder}/")


def test_a_job_is_described_and_has_a_checkpoint_beside_the_file(tmp_path: Path) -> None:
    job = loaded(tmp_path, GOOD).jobs["copy"]
    assert job.describe() == "stream orders → stream copy"
    assert job.checkpoint == (tmp_path / "checkpoints" / "copy").resolve()


def test_variables_of_the_environment_stand_in_values(tmp_path: Path) -> None:
    text = GOOD.replace('"copy" }', '"${TEAM}-copy" }')
    assert loaded(tmp_path, text, TEAM="tea").jobs["copy"].sink.describe() == "stream tea-copy"


@pytest.mark.parametrize(
    "line, words",
    [
        ("triger = 1", "jobs.copy.triger: there is no such key; did you mean trigger?"),
        ('trigger = "5s"', 'jobs.copy.trigger: must be "continuous", "available-now", or a pause such as'),
        ("max_restarts = -1", "jobs.copy.max_restarts: must be a whole number of at least 0, got -1"),
        ('sql = "SELECT 1"', "jobs.copy.sql: must name {source} as what it reads, got 'SELECT 1'"),
        (
            "sql = '''SELECT '{\"v\"}' FROM {source}'''",
            "jobs.copy.sql: write {{ and }} for braces that are no {source}",
        ),
        ("[pipeline]\nmetrics = 5", 'pipeline.metrics: must be HOST:PORT such as "127.0.0.1:9464", got 5'),
        ("[pipline]", "pipline: there is no such key; did you mean pipeline?"),
        ("[jobs.b]\nsource = { stream = 'a' }", "jobs.b: sink is missing: a table"),
        ("[jobs.-b]", "jobs.-b: the name of a job has up to 63 characters"),
        ("[[", "not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_the_file_and_the_key(tmp_path: Path, line: str, words: str) -> None:
    assert complaint(tmp_path, f"{GOOD}\n{line}").startswith(f"jobs.toml: {words}")


@pytest.mark.parametrize(
    "source, words",
    [
        ("{ strem = 'a' }", "jobs.b.source.strem: there is no such key; did you mean stream?"),
        ("{ stream = 5 }", "jobs.b.source.stream: must be a text that is not empty, got 5"),
        ("{ tables = 'items' }", "jobs.b.source.tables: must be a list, each a text that is not empty, got 'items'"),
        ("{ tables = [] }", "jobs.b.source: tables must name at least one"),
        ("{ stream = 'a', tables = ['t'] }", "jobs.b.source: stream and tables contradict each other"),
        (
            "{ stream = 'a', prefix = 'b' }",
            "jobs.b.source: stream and prefix contradict each other: give one",
        ),
        ("{ stream = '${MISSING}' }", "jobs.b.source.stream: the variable MISSING is not set"),
        ("{ stream = '${x y}' }", "jobs.b.source.stream: ${x y} must be ${NAME} or ${NAME:-otherwise}"),
        ("{ tables = ['t'], slot = 'Slot' }", "jobs.b.source: slot must be at most 63 of a-z"),
        ("{}", "jobs.b.source: nothing is chosen: give one of stream, streams, prefix, pattern, bucket, "),
        ("{ prefix = 'b' }", "jobs.b: it reads what it writes, without end: the stream b of http://127.0.0.1:4437"),
        ("{ pattern = '*' }", "jobs.b: it reads what it writes, without end: the stream b of http://127.0.0.1:4437"),
        ("{ stream = 'b' }", "jobs.b: it reads what it writes, without end: the stream b of http://127.0.0.1:4437"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(tmp_path: Path, source: str, words: str) -> None:
    text = f"{GOOD}\n[jobs.b]\nsource = {source}\nsink = {{ stream = 'b' }}"
    assert complaint(tmp_path, text).startswith(f"jobs.toml: {words}")


@pytest.mark.parametrize(
    "sink, words",
    [
        ("{ stream = 'copy' }", "jobs.b.sink: the stream copy of http://127.0.0.1:4437 is that of jobs.copy already"),
        ("{ table = 't', mode = 'upsert' }", 'jobs.b.sink.mode: must be "append" or "state", got \'upsert\''),
        ("{ table = 't', columns = {} }", "jobs.b.sink: columns must name at least one column"),
        (
            "{ table = 't', url = 'mysql://u:pw@h/d' }",
            "jobs.b.sink: the URL of Postgres must begin with postgresql://, ",
        ),
        ("{ table = 't', dead_letters = 'stream:a' }", "jobs.b: it reads what it writes, without end: the stream a of"),
        ("{ bucket = 'team' }", "jobs.b.sink: give stream, or by_column"),
        ("{ stream = 'x', close_on_finish = true }", "jobs.b.sink: close_on_finish needs a job that ends"),
        ("{ stream = 'x', auto_create = false, ttl_secs = 5 }", "jobs.b.sink: ttl_secs is for streams that the sink"),
    ],
)
def test_a_sink_that_makes_no_sense_is_refused(tmp_path: Path, sink: str, words: str) -> None:
    text = f"{GOOD}\n[jobs.b]\nsource = {{ stream = 'a' }}\nsink = {sink}"
    assert complaint(tmp_path, text).startswith(f"jobs.toml: {words}")


@pytest.mark.parametrize("source", ["prefix = 'bb'", "pattern = 'b/*'", "prefix = 'b', bucket = 'team'"])
def test_streams_that_do_not_match_what_is_written_may_be_read(tmp_path: Path, source: str) -> None:
    text = f"{GOOD}\n[jobs.b]\nsource = {{ {source} }}\nsink = {{ stream = 'b' }}"
    assert "b" in loaded(tmp_path, text).jobs


def chain(*streams: str) -> str:
    """Write jobs, each of which hands a stream on to the next."""
    return "".join(
        f"[jobs.{first}-{second}]\nsource = {{ stream = '{first}' }}\nsink = {{ stream = '{second}' }}\n"
        for first, second in pairwise(streams)
    )


def test_jobs_that_hand_on_to_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    told = complaint(tmp_path, chain("x", "y", "z", "x"))
    assert "what it writes comes back to it, without end, through jobs." in told
    assert len(loaded(tmp_path, chain("x", "y", "z")).jobs) == 2


@pytest.mark.parametrize("source", ["pattern = '**'", "prefix = 'pipe'", "stream = 'pipeline-progress'"])
def test_a_job_can_not_read_what_is_told_of_it(tmp_path: Path, source: str) -> None:
    job = f"[jobs.b]\nsource = {{ {source} }}\nsink = {{ table = 't' }}\n"
    assert "jobs.b.source: it reads the stream pipeline-progress of" in complaint(tmp_path, f"{GOOD}\n{job}")
    quiet = "[pipeline]\nprogress = ''\n"
    assert "b" in loaded(tmp_path, f"{quiet}{GOOD}\n{job}").jobs


def test_dead_letters_may_come_back(tmp_path: Path) -> None:
    text = f"{GOOD}\n[jobs.b]\nsource = {{ stream = 'in' }}\nsink = {{ table = 't', dead_letters = 'stream:bad' }}\n"
    text += "[jobs.mend]\nsource = { stream = 'bad' }\nsink = { stream = 'in' }\n"
    assert "mend" in loaded(tmp_path, text).jobs


def test_changes_of_tables_do_not_go_to_a_table_at_once(tmp_path: Path) -> None:
    text = f"{GOOD}\n[jobs.b]\nsource = {{ tables = ['a'] }}\nsink = {{ table = 'b' }}\n"
    assert "jobs.b.sink: changes of tables go to a stream first" in complaint(tmp_path, text)


@pytest.mark.parametrize("memory", ["lots", "1", "0g", "1 g"])
def test_memory_is_a_size(tmp_path: Path, memory: str) -> None:
    told = complaint(tmp_path, f"[pipeline]\nmemory = '{memory}'\n{chain('x', 'y')}")
    assert told.startswith('jobs.toml: pipeline.memory: must be a size such as "512m" or "2g"')


def test_a_password_is_not_in_a_complaint(tmp_path: Path) -> None:
    text = GOOD.replace("postgresql://", "mysql://") + "[jobs.b]\nsource = { tables = ['t'] }\nsink = { stream = 'b' }"
    assert "secret" not in complaint(tmp_path, text)


@pytest.mark.parametrize("folder", ["..", ".", "a/../..", "/elsewhere"])
def test_a_checkpoint_that_a_reset_would_delete_is_below_those_of_the_pipeline(tmp_path: Path, folder: str) -> None:
    told = complaint(tmp_path, GOOD + f"checkpoint = '{folder}'\n")
    assert told.startswith("jobs.toml: jobs.copy.checkpoint: must be a folder below")


def test_two_jobs_can_not_have_one_checkpoint_or_one_slot(tmp_path: Path) -> None:
    copy = GOOD + "checkpoint = 'one'\n"
    other = "[jobs.b]\nsource = { stream = 'a' }\nsink = { stream = 'b' }\ncheckpoint = 'one/two'"
    assert complaint(tmp_path, copy + other).endswith("one/two is, or is within, that of jobs.copy")
    slots = "".join(f"[jobs.{n}]\nsource={{tables=['t'],slot='s'}}\nsink={{stream='{n}'}}\n" for n in "bc")
    assert "jobs.c.source: the slot s of postgresql://db.test/streams is that of jobs.b" in complaint(
        tmp_path, GOOD + slots
    )


def test_a_file_that_is_not_there_or_has_no_jobs_is_told_of(tmp_path: Path) -> None:
    assert complaint(tmp_path, "") == "jobs.toml: jobs: there are none: a job is a section such as [jobs.copy]"
    with pytest.raises(InvalidJobs, match=r"none.toml: can't be read: No such file or directory"):
        load(tmp_path / "none.toml")


def test_jobs_are_chosen_by_name(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, GOOD)
    assert list(choose(pipeline, [])) == list(choose(pipeline, ["copy"])) == ["copy"]
    with pytest.raises(PipelineMissing, match=r"has no job 'coyp'; did you mean copy\?"):
        choose(pipeline, ["coyp"])
