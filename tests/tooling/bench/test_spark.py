"""The figures of the Spark connector say which is better, what was to be reached, and why one is missing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from bench.spark.figures import Figure, at_least, at_most, section_of
from bench.spark.offsets import measure_offsets
from bench.spark.scene import Scene, body
from bench.spark.size import QUICK
from everbrook.spark.connection import disconnect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_ratio_is_above_one_where_ours_is_better() -> None:
    faster = Figure(case="speed", unit="messages/s", ours=[200.0, 100.0, 300.0], theirs=[100.0, 100.0, 100.0])
    sooner = Figure(case="wait", unit="ms", ours=[10.0], theirs=[40.0])
    assert (faster.ratio, sooner.ratio) == (2.0, 4.0)


def test_aims_are_met_or_missed() -> None:
    figures = [
        Figure(case="speed", unit="messages/s", aim=at_least(250), ours=[249.0]),
        Figure(case="wait", unit="ms", aim=at_most(50), ours=[50.0]),
    ]
    verdicts = [remark.rpartition(" ")[2] for remark in section_of("", figures).remarks]
    assert verdicts == ["MISSED", "met"]


def test_a_case_that_the_reference_has_no_figure_for_says_why() -> None:
    section = section_of("", [Figure(case="wait", unit="ms", ours=[1.0], missing="it has no list")])
    assert section.rows[0][3:5] == ("-", "-")
    assert section.remarks == ["wait: the reference has no figure: it has no list."]


def test_messages_have_about_a_hundred_bytes() -> None:
    assert 95 <= len(body(0, 1000)) / 1000 <= 105


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A scene without Spark and without the reference, for parts that need neither."""
    yield Scene(cast("SparkSession", None), tmp_path, replace(QUICK, reference=False))
    disconnect()


def test_looking_at_streams_is_measured_on_a_server_of_its_own(scene: Scene) -> None:
    (section,) = measure_offsets(scene)
    assert [sample["ms"] > 0 for sample in section.samples] == [True] * 6  # type: ignore[operator]
