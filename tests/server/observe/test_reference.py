"""The page that tells people of the metrics says what the catalogue says."""

from pathlib import Path

import pytest

from everbrook.server.observe import reference
from everbrook.server.observe.catalogue import METRICS
from everbrook.server.observe.operations import OPERATIONS

ROOT = Path(__file__).parents[3]
STALE = "run: python -m everbrook.server.observe.reference"


def page() -> str:
    return (ROOT / reference.PAGE).read_text(encoding="utf-8")


def test_the_table_is_up_to_date() -> None:
    assert reference.render_page(page()) == page(), STALE


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_row(name: str) -> None:
    assert f"| `{name}` |" in page()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_named(operation: str) -> None:
    assert f"`{operation}`" in page()
