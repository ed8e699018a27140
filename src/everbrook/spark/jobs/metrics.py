"""Metrics of jobs for Prometheus, on a port of their own. Each scrape reads them from the board."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from everbrook.spark.jobs.status import Board, JobState, State

if TYPE_CHECKING:
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

_BUCKETS_SECS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTS = {
    "rows": "Rows that were read.",
    "batches": "Batches with rows in them.",
    "restarts": "How often a job was started again.",
    "failures": "How often a job failed.",
    "dead_letters": "Messages that did not fit and became dead letters.",
    "folded_bytes": "Bytes of messages that snapshots stand for now.",
    "snapshot_bytes": "Bytes of the snapshots that were published.",
}
_LEVELS = {
    "lag_bytes": "Bytes that were not read yet; for tables, the log that the slot has not confirmed.",
    "slot_bytes": "Bytes that Postgres keeps on disk for the slot.",
}


class Metrics:
    """The metrics of a pipeline."""

    def __init__(self, board: Board) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_OfBoard(board))
        self._durations = Histogram(
            "everbrook_job_batch_duration_seconds",
            "How long batches took.",
            ["job"],
            buckets=_BUCKETS_SECS,
            registry=self.registry,
        )
        self._server: tuple[WSGIServer, Thread] | None = None

    def observe_batch(self, job: str, batch_ms: int) -> None:
        """Take the duration of a batch into account."""
        self._durations.labels(job).observe(batch_ms / 1000)

    def serve(self, address: str) -> int:
        """Serve at HOST:PORT, and return the port. Raise OSError if it is taken."""
        host, _, port = address.rpartition(":")
        self._server = start_http_server(int(port), host.strip("[]") or "0.0.0.0", self.registry)  # noqa: S104 - as asked
        return int(self._server[0].server_port)

    def close(self) -> None:
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()


class _OfBoard(Collector):
    """The states of jobs as metrics."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterable[Metric]:
        states = self._board.states()
        for name, words in _COUNTS.items():
            yield _filled(CounterMetricFamily(f"everbrook_job_{name}", words, labels=["job"]), states, name)
        for name, words in _LEVELS.items():
            yield _filled(GaugeMetricFamily(f"everbrook_job_{name}", words, labels=["job"]), states, name)
        yield _folds_metric(states)
        yield _state_metric(states)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, states: list[JobState], name: str) -> Metric:
    for state in states:
        value = getattr(state, name)
        if value is not None:
            family.add_metric([state.job], value)
    return family


def _folds_metric(states: list[JobState]) -> Metric:
    words = "Streams that were folded, by outcome."
    family = CounterMetricFamily("everbrook_job_folds", words, labels=["job", "outcome"])
    for state in states:
        for outcome, count in state.folds.items():
            family.add_metric([state.job, outcome], count)
    return family


def _state_metric(states: list[JobState]) -> Metric:
    family = GaugeMetricFamily("everbrook_job_state", "1 for the state that a job is in.", labels=["job", "state"])
    for state in states:
        for each in State:
            family.add_metric([state.job, each.value], float(state.state is each))
    return family
