"""What a reset of a job removes, and what it leaves."""

from pathlib import Path

import psycopg
import pytest

from everbrook.spark.jobs.loading import load
from tests.database import database, postgres

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
