"""What the stack knows of its pipeline: what that says in its log."""

import json
from pathlib import Path

import pytest

from everbrook.stack.parts import Pipeline
from everbrook.stack.site import Site


@pytest.fixture
def part(tmp_path: Path) -> Pipeline:
    (tmp_path / "logs").mkdir()
    made = Pipeline(Site(tmp_path, "http://nowhere", "postgresql://nowhere"))
    made.log.touch()
    return made


def say(part: Pipeline, **event: object) -> None:
    with part.log.open("a") as log:
        log.write(json.dumps(event) + "\n")


def test_a_job_that_has_failed_is_trouble_though_the_others_run(part: Pipeline) -> None:
    say(part, event="state", job="items", state="failed", error="no such table")
    assert not part.ready()
    say(part, event="ready", jobs=1, failed=["items"])
    assert part.ready()
    assert part.trouble() == "job items failed: no such table"


def test_a_pipeline_that_begins_anew_is_no_trouble(part: Pipeline) -> None:
    say(part, event="state", job="items", state="failed", error="no such table")
    assert part.trouble()
    part.log.write_text("not JSON\n")
    say(part, event="state", job="items", state="running")
    assert part.trouble() == ""
