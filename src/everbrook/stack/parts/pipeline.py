"""The pipeline: rows of `items` into the stream `pg-items`, events of `session-events` into the table `session_events`.

Its jobs are a file in the data folder, put there once and the user's from then on. How they do is read from what it
logs, a JSON object a line.
"""

import subprocess
from importlib.resources import files
from typing import Any, ClassVar

import msgspec

from everbrook.stack.parts.part import WRONG_USE, Part
from everbrook.stack.site import PROGRESS_STREAM, Site


class Pipeline(Part):
    name: ClassVar = "pipeline"
    needs: ClassVar = ("server", "postgres")
    summary: ClassVar = "jobs on Spark, both ways, exactly once"
    hopeless_codes: ClassVar = WRONG_USE
    ready_timeout_secs: ClassVar = 300.0  # Java and Spark start slowly on a machine that has other things to do
    stop_timeout_secs: ClassVar = 60.0  # the batch that is under way is finished

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._file = site.data_dir / "pipeline.toml"
        self._seen_bytes = 0
        self._ready = False
        self._failed: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The stream of what its queries do."""
        return self.site.stream_url(PROGRESS_STREAM)

    def start(self) -> subprocess.Popen[bytes]:
        if not self._file.exists():
            self._file.write_bytes(files("everbrook.stack").joinpath("pipeline.toml").read_bytes())
        self._seen_bytes, self._ready = self.log_bytes(), False
        self._failed.clear()
        return self.everbrook("pipeline", "run", str(self._file))

    def ready(self) -> bool:
        """Look for the line that says that every job has started its query, or has failed."""
        self._read()
        return self._ready

    def trouble(self) -> str:
        """Name the jobs that have failed, which nobody starts again."""
        self._read()
        return "; ".join(f"job {job} failed: {why}" for job, why in sorted(self._failed.items()))

    def _read(self) -> None:
        """Take the lines that were written since. A log that is shorter than before was emptied."""
        if self.log_bytes() < self._seen_bytes:
            self._seen_bytes = 0
        with self.log.open("rb") as log:
            log.seek(self._seen_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._seen_bytes += len(line)
                self._take(_event(line))

    def _take(self, event: dict[str, Any]) -> None:
        if event.get("event") == "ready":
            self._ready = True
        elif event.get("event") == "state":
            self._failed.pop(event["job"], None)
            if event["state"] == "failed":
                self._failed[event["job"]] = str(event.get("error"))


def _event(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
