"""What `write_postgres` is told of a server, and by whom."""

from pathlib import Path
from typing import Any

import pytest

import everbrook.spark
from everbrook.spark.jobs.load import load
from everbrook.spark.options import ServerOptions

FILE = """
[server]
url = "http://127.0.0.1:4437"
token_file = "secrets/token"
ca_file = "secrets/ca.pem"
[jobs.events]
source = { stream = "events" }
sink = { table = "events", url = "postgresql://db.test/events", dead_letters = "stream:dead" }
"""


def test_a_job_hands_all_that_it_knows_of_the_server_to_its_dead_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(everbrook.spark, "write_postgres", lambda *_args, **options: given.update(options))
    (tmp_path / "jobs.toml").write_text(FILE)
    job = load(tmp_path / "jobs.toml", {}).jobs["events"]
    job.sink.write(None, job, print)  # type: ignore[arg-type]
    server: ServerOptions = given["server"]
    assert (server.url, server.token_file, server.ca_file) == (
        "http://127.0.0.1:4437",
        "secrets/token",
        "secrets/ca.pem",
    )
