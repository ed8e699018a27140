"""Every query of the dashboard and of the alerts is about metrics and labels that a server has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from everbrook.server.observe.catalogue import METRICS
from everbrook.spark.jobs.metrics import Metrics
from everbrook.spark.jobs.status import Board
from tests.kit.servers import Connect, Start
from tests.server.observe.promql import used

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy/grafana/everbrook.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
# Prometheus adds the first two to every sample; its own `job` wins over one that a sample brings. `up` is its own too.
ADDED = {"job", "instance", "exported_job"}
PIPELINE = "everbrook_job_"


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return read


def dashboard_queries() -> list[str]:
    shown = dashboard()
    queries = [target["expr"] for panel in shown["panels"] for target in panel.get("targets", ())]
    variables = [each["query"] for each in shown["templating"]["list"] if each["type"] == "query"]
    return queries + [re.sub(r",\s*\w+\)\Z", ")", query) for query in variables]


def alert_queries() -> list[str]:
    """The expressions of the file, those over several lines too."""
    text = ALERTS.read_text(encoding="utf-8")
    found = re.findall(r"^ +expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", text, re.MULTILINE)
    assert len(found) == text.count("- alert:")
    return [" ".join((folded or plain).split()) for folded, plain in found]


QUERIES = dashboard_queries() + alert_queries()


def labels_of(text: str) -> dict[str, set[str]]:
    """Every series in a scrape by its name, with the labels that it has; a family without samples has its name."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name + ("_total" if family.type == "counter" else ""), set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def pipeline() -> dict[str, set[str]]:
    metrics = Metrics(Board([("orders", "streams to Postgres")]))
    metrics.observe_batch("orders", 5)
    return labels_of(generate_latest(metrics.registry).decode())


@pytest.fixture
def scraped(start: Start, connect: Connect, path: str, pipeline: dict[str, set[str]]) -> dict[str, set[str]]:
    """What a server under some load and a pipeline tell, with what the catalogue says of labels nobody has used yet."""
    wire = connect(start())
    wire.create(path, body=b"one")
    wire.append(path, b"two")
    wire.get(path)
    wire.get("/v1/stream/none")
    found = {"up": set(), **labels_of(wire.get("/metrics").body.decode()), **pipeline}
    for metric in METRICS.values():
        found.setdefault(metric.name, set()).update(metric.labels)
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_about_metrics_and_labels_that_exist(query: str, scraped: dict[str, set[str]]) -> None:
    for name, labels in used(query).items():
        assert name in scraped, query
        assert labels <= scraped[name] | ADDED, query


def test_every_metric_of_the_server_is_on_the_dashboard() -> None:
    """But for the two that only say something beside others."""
    shown = {name for query in dashboard_queries() for name in used(query)}
    stems = {re.sub(r"_(bucket|count|sum)\Z", "", name) for name in shown}
    assert METRICS.keys() - stems <= {
        "everbrook_commit_refused_groups_total",
        "everbrook_checkpoint_seconds_total",
        "everbrook_storage_disk_size_bytes",
    }


def test_panels_have_names_and_numbers_of_their_own() -> None:
    everything = dashboard()["panels"]
    panels = [panel for panel in everything if panel["type"] != "row"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in panels}) == len(panels)


@pytest.mark.parametrize(
    "query, found",
    [
        ("up", {"up": set()}),
        ('sum by (a) (rate(x_total{b=~"c|d", e!="{f}"}[5m])) > 1', {"x_total": {"a", "b", "e"}}),
        ("max(x) / min(y)", {"x": set(), "y": set()}),
        ("histogram_quantile(0.99, sum by (le) (rate(x_bucket[$__rate_interval])))", {"x_bucket": {"le"}}),
        ("unheard_of(x)", {"unheard_of": set(), "x": set()}),
    ],
)
def test_the_reader_of_queries_finds_metrics_and_labels(query: str, found: dict[str, set[str]]) -> None:
    assert used(query) == found
