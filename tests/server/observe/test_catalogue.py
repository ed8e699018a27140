"""The page that tells people of the metrics says what the catalogue says."""

from pathlib import Path

import pytest

from everbrook.server.methods import OPERATIONS, OTHER, operation_at
from everbrook.server.observe import catalogue
from everbrook.server.observe.catalogue import METRICS
from everbrook.server.routes import Resource

ROOT = Path(__file__).parents[3]
STALE = "run: python -m everbrook.server.observe.catalogue"


def page() -> str:
    return (ROOT / catalogue.PAGE).read_text(encoding="utf-8")


def test_the_table_is_up_to_date() -> None:
    assert catalogue.render_page(page()) == page(), STALE


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_row(name: str) -> None:
    assert f"| `{name}` |" in page()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_named(operation: str) -> None:
    assert f"`{operation}`" in page()


@pytest.mark.parametrize("resource", [resource for resource in Resource if resource is not Resource.STREAM])
def test_every_resource_has_an_operation(resource: Resource) -> None:
    assert operation_at(resource, b"GET") not in {"", OTHER}
