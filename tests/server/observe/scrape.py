"""Metrics as a test reads them: parsed by the Prometheus library."""

from prometheus_client.parser import text_string_to_metric_families

from tests.kit.wire import Wire


def scrape(wire: Wire) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Give every sample of a server, by its name and labels."""
    answer = wire.get("/metrics")
    assert answer.status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def value(wire: Wire, name: str, **labels: str) -> float:
    """Give one sample; 0 if it is not there."""
    return scrape(wire).get((name, frozenset(labels.items())), 0.0)
