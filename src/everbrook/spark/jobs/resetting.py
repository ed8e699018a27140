"""Resetting a job: everything that says how far it has come is dropped, so that it begins anew.

What it has written stays where it is. Nothing is dropped while the job runs. What is kept outside goes first: if that
can't be reached, the checkpoint is still there, and the reset can be asked for again.
"""

from pathlib import Path

from everbrook.spark.capture.spool import RESETS
from everbrook.spark.jobs.job import Job, Pipeline
from everbrook.spark.jobs.locking import locked


def reset(pipeline: Pipeline, job: Job) -> list[str]:
    """Forget how far a job has come, and say what was dropped."""
    with locked(pipeline.checkpoints):
        dropped = [*job.source.reset(job), *job.sink.reset(job)]
        if job.checkpoint.exists():
            _remove(job.checkpoint)
            dropped.append(f"checkpoint {job.checkpoint}")
        return dropped


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint, but not the names of the streams that the next copy of a capture has to reset."""
    for path in (*sorted(checkpoint.rglob("*"), reverse=True), checkpoint):
        if path.is_symlink() or not path.is_dir():
            if path.name != RESETS:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
