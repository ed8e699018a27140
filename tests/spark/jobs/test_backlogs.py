"""A backlog that is larger than the memory of Spark's driver: a job reads it in batches that fit."""

from pathlib import Path

from everbrook import Client
from tests.kit.ports import free_port
from tests.kit.server_process import serving
from tests.spark.jobs.pipelines import running

FILE = """
[pipeline]
memory = "512m"
[server]
url = "http://127.0.0.1:{port}"
[jobs.copy]
source = {{ stream = "in" }}
sink = {{ stream = "out" }}
trigger = "available-now"
"""
MESSAGES = 150


def test_a_backlog_larger_than_memory_is_copied_in_batches(tmp_path: Path) -> None:
    file, port = tmp_path / "jobs.toml", free_port()
    file.write_text(FILE.format(port=port))
    storage = {"DS_STORAGE__MODE": "file-fast"}
    with serving(tmp_path, "--port", str(port), **storage), Client(f"http://127.0.0.1:{port}") as client:
        client.stream("in").create()
        client.stream("in").extend({"n": n, "padding": "x" * 1_000_000} for n in range(MESSAGES))
        with running(file) as pipeline:
            done = pipeline.wait_for(lambda event: event.get("state") in {"done", "restarting", "failed"})
        assert (done["state"], done["rows"], done["batch"]) == ("done", MESSAGES, 4)
        assert [message["n"] for message in client.stream("out").read()] == list(range(MESSAGES))
