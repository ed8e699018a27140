"""What a reset of a job removes, and what it leaves."""

from pathlib import Path

import psycopg
import pytest

from everbrook.spark.jobs.load import load
from everbrook.spark.jobs.runner import reset
from everbrook.spark.postgres.capture_position import RESETS
from tests.kit.postgres import database, postgres

__all__ = ["database", "postgres"]


@pytest.mark.parametrize("given, left", [("", {"mine"}), (", publication = 'mine'", {"mine", "everbrook_items"})])
def test_only_a_publication_that_was_not_named_is_dropped(
    tmp_path: Path, database: str, given: str, left: set[str]
) -> None:
    file = tmp_path / "jobs.toml"
    source = f"source = {{ tables = ['items'], url = '{database}'{given} }}"
    file.write_text(f"[jobs.items]\n{source}\nsink = {{ stream = 'items' }}\n")
    job = load(file, {}).jobs["items"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE PUBLICATION mine")
        connection.execute("CREATE PUBLICATION everbrook_items")
        job.source.reset(job)
        assert {name for (name,) in connection.execute("SELECT pubname FROM pg_publication")} == left


def test_of_a_checkpoint_only_the_streams_that_are_to_be_reset_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text("[jobs.copy]\nsource = { stream = 'a' }\nsink = { stream = 'b' }\n")
    pipeline = load(file, {})
    checkpoint = pipeline.jobs["copy"].checkpoint
    for name in ("commits/0", "metadata", f"copy/{RESETS}", "copy/part-00000.copy"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).touch()
    reset(pipeline, pipeline.jobs["copy"])
    assert [path for path in checkpoint.rglob("*") if path.is_file()] == [checkpoint / "copy" / RESETS]
    (checkpoint / "copy" / RESETS).unlink()
    reset(pipeline, pipeline.jobs["copy"])
    assert not checkpoint.exists()
