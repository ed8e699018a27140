"""Loads a file of jobs. An error is reported before anything runs, with the file, the job and the key."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from string import Formatter
from typing import Any

from everbrook.spark.jobs.model import (
    InvalidJobs,
    Job,
    JobKeys,
    Pipeline,
    PipelineKeys,
    PipelineMissing,
    PostgresKeys,
    ServerKeys,
    Sink,
    Source,
    parse_trigger,
)
from everbrook.spark.jobs.resources import Resource, server_url
from everbrook.spark.jobs.sinks import LakeSink, StreamSink, TableSink
from everbrook.spark.jobs.sources import FoldSource, LakeSource, StreamSource, TableSource
from everbrook.spark.jobs.toml_values import WrongValue, build, expand, require_known, suggest

SOURCES: tuple[Any, ...] = (StreamSource, FoldSource, TableSource, LakeSource)
SINKS: tuple[Any, ...] = (StreamSink, TableSink, LakeSink)
_SECTIONS = ("pipeline", "server", "postgres", "jobs")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


def build_source(table: dict[str, object], key: str) -> Source:
    """Build a source from its table."""
    found: Source = build(_chosen(SOURCES, table, key), table, key)
    return found


def build_sink(table: dict[str, object], key: str) -> Sink:
    """Build a sink from its table."""
    found: Sink = build(_chosen(SINKS, table, key), table, key)
    return found


def _chosen(kinds: tuple[Any, ...], table: dict[str, object], key: str) -> Any:
    """Choose the kind by its marks. Marks of two kinds are an error, and so is a table without marks."""
    found = {kind: [name for name in table if name in kind.MARKS] for kind in kinds}
    marked = _narrowest({kind: names for kind, names in found.items() if names})
    if len(marked) > 1:
        first, second, *_ = (names[0] for names in marked.values())
        raise WrongValue(key, f"{first} and {second} contradict each other: give one of them")
    if marked:
        return next(iter(marked))
    marks = list(dict.fromkeys(name for kind in kinds for name in kind.MARKS))
    require_known(table, [*marks, *(name for kind in kinds for name in kind.__struct_fields__)], key)
    raise WrongValue(key, f"nothing is chosen: give one of {', '.join(marks)}")


def _narrowest(marked: dict[Any, list[str]]) -> dict[Any, list[str]]:
    """Leave out kinds whose marks are plain keys of another kind that has a mark of its own."""
    return {
        kind: names
        for kind, names in marked.items()
        if not any(
            set(names) <= set(other.__struct_fields__) and not set(its) <= set(kind.__struct_fields__)
            for other, its in marked.items()
        )
    }


def load(path: Path, environ: Mapping[str, str] | None = None) -> Pipeline:
    """Read and check a file; raise `InvalidJobs` if it can't be used."""
    try:
        return _pipeline(path, expand(_read(path), os.environ if environ is None else environ))
    except WrongValue as error:
        raise InvalidJobs(str(path), error.key, str(error)) from None


def choose(pipeline: Pipeline, names: Iterable[str]) -> dict[str, Job]:
    """Return the jobs of these names, or all jobs if no name is given."""
    names = list(names)
    for name in names:
        if name not in pipeline.jobs:
            raise PipelineMissing(f"{pipeline.file} has no job {name!r}{suggest(name, pipeline.jobs)}")
    return {name: job for name, job in pipeline.jobs.items() if not names or name in names}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidJobs(str(path), "", f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidJobs(str(path), "", f"not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidJobs(str(path), "", f"not valid TOML: {error}") from None


def _pipeline(path: Path, document: dict[str, Any]) -> Pipeline:
    require_known(document, _SECTIONS, "")
    tables = {name: _table(document.get(name, {}), name) for name in _SECTIONS}
    keys = build(PipelineKeys, tables["pipeline"], "pipeline")
    server = build(ServerKeys, tables["server"], "server")
    postgres = build(PostgresKeys, tables["postgres"], "postgres")
    if not tables["jobs"]:
        raise WrongValue("jobs", "there are none: a job is a section such as [jobs.copy]")
    checkpoints = path.absolute().parent / Path(keys.checkpoints).expanduser()
    jobs = {
        name: _job(name, _table(table, f"jobs.{name}"), checkpoints, server, postgres, path.absolute().parent)
        for name, table in tables["jobs"].items()
    }
    _require_apart(jobs)
    _require_tables_apart(jobs)
    _require_ends(jobs)
    _require_progress_unread(keys, server, jobs)
    return Pipeline(str(path), keys, checkpoints, server, jobs)


def _table(value: object, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongValue(key, f"must be a table, got {value!r}")
    return value


def _job(
    name: str, table: dict[str, Any], checkpoints: Path, server: ServerKeys, postgres: PostgresKeys, folder: Path
) -> Job:
    key = f"jobs.{name}"
    if not _NAME.fullmatch(name):
        raise WrongValue(
            key, "the name of a job has up to 63 characters of A-Z, a-z, 0-9, _ and -, and begins with none of _ and -"
        )
    keys = build(JobKeys, table, key)
    try:
        trigger = parse_trigger(keys.trigger)
    except ValueError as error:
        raise WrongValue(f"{key}.trigger", str(error)) from None
    job = Job(
        name,
        build_source(keys.source, f"{key}.source"),
        build_sink(keys.sink, f"{key}.sink"),
        trigger,
        _checkpoint(checkpoints, keys.checkpoint or name, f"{key}.checkpoint"),
        server,
        postgres,
        keys.sql,
        keys.max_restarts,
        folder,
    )
    _check(job, key)
    return job


def _checkpoint(checkpoints: Path, given: str, key: str) -> Path:
    """Find the folder of a job. A reset deletes it, so it must be within that of the pipeline."""
    folder = (checkpoints / given).resolve()
    if checkpoints.resolve() not in folder.parents:
        raise WrongValue(key, f"must be a folder below {checkpoints}, got {given!r}")
    return folder


def _check(job: Job, key: str) -> None:
    for side, kind in (("source", job.source), ("sink", job.sink)):
        try:
            kind.check(job)
        except ValueError as error:
            raise WrongValue(f"{key}.{side}", str(error)) from None
    if job.sql is not None:
        _check_sql(job.sql, f"{key}.sql")
    looped = [str(each) for each in job.sink.writes(job) if job.source.reads(job, each)]
    if looped:
        raise WrongValue(key, f"it reads what it writes, without end: {min(looped)}")


def _check_sql(text: str, key: str) -> None:
    """Refuse braces with anything but {source}, on which Spark's formatter would fail."""
    try:
        fields = {field for _, field, _, _ in Formatter().parse(text) if field is not None}
    except ValueError as error:
        raise WrongValue(
            key, f"write {{{{ and }}}} for braces that are no {{source}} ({error}), got {text!r}"
        ) from None
    if "source" not in fields:
        raise WrongValue(key, f"must name {{source}} as what it reads, got {text!r}")
    if other := fields - {"source"}:
        raise WrongValue(
            key, f"write {{{{ and }}}} for braces that are no {{source}}, got {{{min(other)}}} in {text!r}"
        )


def _require_apart(jobs: Mapping[str, Job]) -> None:
    """Refuse two jobs with the same checkpoint, target or slot."""
    taken: dict[Resource, str] = {}
    for name, job in jobs.items():
        claims = {**dict.fromkeys(job.source.claims(job), "source"), **dict.fromkeys(job.sink.claims(job), "sink")}
        for claim, side in claims.items():
            if claim in taken:
                raise WrongValue(f"jobs.{name}.{side}", f"{claim} is that of jobs.{taken[claim]} already")
            taken[claim] = name
        for other in jobs.values():
            if other.name != name and (
                job.checkpoint == other.checkpoint or other.checkpoint in job.checkpoint.parents
            ):
                raise WrongValue(
                    f"jobs.{name}.checkpoint", f"{job.checkpoint} is, or is within, that of jobs.{other.name}"
                )


def _require_tables_apart(jobs: Mapping[str, Job]) -> None:
    """Refuse a table within the folder of another."""
    folders = {name: job.sink.folder(job) for name, job in jobs.items() if isinstance(job.sink, LakeSink)}
    for name, folder in folders.items():
        outer = next((other for other in folders if folders[other] in folder.parents), None)
        if outer is not None:
            raise WrongValue(f"jobs.{name}.sink.lake", f"{folder} is within the table of jobs.{outer}")


def _require_ends(jobs: Mapping[str, Job]) -> None:
    """Refuse jobs that feed each other in a cycle. Dead letters may return: they are corrected on the way."""
    feeding = {
        name: {
            other.name for other in jobs.values() if any(job.source.reads(job, it) for it in other.sink.claims(other))
        }
        for name, job in jobs.items()
    }
    try:
        TopologicalSorter(feeding).prepare()
    except CycleError as error:
        first, *others = dict.fromkeys(error.args[1])
        through = ", ".join(f"jobs.{name}" for name in others)
        raise WrongValue(f"jobs.{first}", f"what it writes comes back to it, without end, through {through}") from None


def _require_progress_unread(keys: PipelineKeys, server: ServerKeys, jobs: Mapping[str, Job]) -> None:
    """Refuse a job that reads the stream of progress: each of its batches would cause another."""
    progress = Resource.stream(keys.progress, server_url(server.url))
    for name, job in jobs.items():
        if keys.progress and job.source.reads(job, progress):
            raise WrongValue(
                f"jobs.{name}.source",
                f"it reads {progress}, which gets a message for each of its batches, without end: "
                "choose streams without it, or another name for it with pipeline.progress",
            )
