"""The collector: reads the plain numbers of all parts when somebody asks for metrics, and at no other time."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric as Family
from prometheus_client.registry import Collector

from everbrook.engine.engine import Engine
from everbrook.engine.stats import EngineStats, Histogram
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT
from everbrook.server.observe.catalogue import METRICS, Kind
from everbrook.server.observe.counters import COUNTED
from everbrook.server.observe.disk import DiskUse
from everbrook.server.observe.loop_lag import LoopLag
from everbrook.server.observe.observer import Observer
from everbrook.server.observe.survey import TransportSurvey
from everbrook.server.observe.tallies import BOUNDS_SECS, Tally
from everbrook.settings import Settings

Sample = tuple[Sequence[str], float]
SURFACES = {"base": STREAM_ROOT, "bucket": BUCKET_ROOT}


def family(name: str, samples: Iterable[Sample]) -> Family:
    """Give a counter or a gauge of the catalogue with its values."""
    metric = METRICS[name]
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    filled = kind(name, metric.words, labels=metric.labels)
    for labels, value in samples:
        filled.add_metric(labels, value)
    return filled


def single(name: str, value: float | None) -> Family:
    """Give one value without labels; none if it is not known."""
    return family(name, [] if value is None else [((), value)])


def histogram(name: str, by_labels: Iterable[tuple[Sequence[str], Histogram]]) -> Family:
    """Give histograms of the catalogue. What we count apart Prometheus wants added up."""
    metric = METRICS[name]
    filled = HistogramMetricFamily(name, metric.words, labels=metric.labels)
    for labels, values in by_labels:
        below, buckets = 0, []
        for bound, count in zip((*values.bounds, float("inf")), values.counts, strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), below))
        filled.add_metric(labels, buckets, values.sum)
    return filled


class ServerCollector(Collector):
    """All metrics of one server."""

    def __init__(
        self, engine: Engine, subscriptions: Subscriptions, observer: Observer, lag: LoopLag, settings: Settings
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._observer = observer
        self._lag = lag
        self._storage_mode = settings.storage.mode.value
        self._disk = DiskUse(settings.storage, engine.faults)

    def collect(self) -> Iterator[Family]:
        """Read everything."""
        engine = self._engine.inspect()
        yield family("everbrook_info", [((version("everbrook"), self._storage_mode), 1)])
        yield from _of_requests(self._observer.tallies.all())
        yield family("everbrook_refusals_total", _by_word(self._observer.tallies.refusals))
        yield from _of_commits(engine)
        yield from _of_connections(self._observer.transport.survey())
        yield histogram("everbrook_event_loop_lag_seconds", [((), self._lag.seen)])
        yield from self._of_storage(engine)
        yield from self._of_subscriptions()
        for name in COUNTED:
            yield family(f"everbrook_{name}_total", _by_word(self._observer.counters.of(name)))

    def _of_storage(self, engine: EngineStats) -> Iterator[Family]:
        self._disk.look()
        streams = [((surface,), self._engine.listing.count(root)) for surface, root in SURFACES.items()]
        free, size = self._disk.free_and_size() or (None, None)
        yield family("everbrook_faults_total", [((callback,), count) for callback, count in engine.faults.items()])
        yield single("everbrook_storage_failed", engine.failed)
        yield single("everbrook_storage_damaged_streams", engine.damaged_streams)
        yield family("everbrook_storage_streams", streams)
        yield single("everbrook_storage_resident_streams", engine.resident_streams)
        yield single("everbrook_storage_loaded_bytes", engine.loaded_bytes)
        yield single("everbrook_storage_memory_bytes", engine.memory_bytes)
        yield single("everbrook_storage_disk_bytes", self._disk.used_bytes)
        yield single("everbrook_storage_disk_free_bytes", free)
        yield single("everbrook_storage_disk_size_bytes", size)
        yield from _of_checkpoints(engine)

    def _of_subscriptions(self) -> Iterator[Family]:
        found = self._subscriptions.stats()
        deliveries = self._observer.deliveries
        taken = [(("taken",), deliveries[True]), (("failed",), deliveries[False])]
        yield family("everbrook_subscriptions", found.by_kind.items())
        yield single("everbrook_subscriptions_awake", found.awake)
        yield single("everbrook_subscriptions_failing", found.failing)
        yield single("everbrook_subscriptions_blocked", found.blocked)
        yield family("everbrook_webhook_deliveries_total", taken)
        yield histogram("everbrook_webhook_delivery_seconds", [((), self._observer.delivery_secs)])


def _by_word(counts: dict[str, int]) -> list[Sample]:
    return [((word,), count) for word, count in counts.items()]


def _of_requests(tallies: list[Tally]) -> Iterator[Family]:
    durations: dict[str, Histogram] = {}
    sent_bytes: dict[str, int] = {}
    for tally in tallies:
        added = durations.setdefault(tally.operation, Histogram(BOUNDS_SECS))
        added.counts = [ours + theirs for ours, theirs in zip(added.counts, tally.counts, strict=True)]
        added.sum += tally.secs
        sent_bytes[tally.operation] = sent_bytes.get(tally.operation, 0) + tally.sent_bytes
    answers = [((tally.operation, tally.method, str(tally.status)), tally.count) for tally in tallies]
    yield family("everbrook_requests_total", answers)
    by_operation = [((operation,), values) for operation, values in durations.items()]
    yield histogram("everbrook_request_duration_seconds", by_operation)
    yield family("everbrook_response_bytes_total", _by_word(sent_bytes))


def _of_commits(engine: EngineStats) -> Iterator[Family]:
    yield single("everbrook_appended_messages_total", engine.appended_messages)
    yield single("everbrook_appended_bytes_total", engine.appended_bytes)
    yield single("everbrook_duplicate_appends_total", engine.duplicates)
    yield histogram("everbrook_commit_group_changes", [((), engine.commits.sizes)])
    yield histogram("everbrook_commit_sync_seconds", [((), engine.commits.sync)])
    yield single("everbrook_commit_refused_groups_total", engine.commits.refused)
    yield single("everbrook_commit_pending_changes", engine.pending)
    yield single("everbrook_commit_oldest_pending_seconds", engine.pending_secs)
    yield single("everbrook_commit_stalled", engine.stalled)
    yield single("everbrook_commit_parked_answers", engine.parked)


def _of_connections(survey: TransportSurvey) -> Iterator[Family]:
    yield family("everbrook_live_readers", survey.readers.items())
    yield single("everbrook_live_readers_behind", survey.behind)
    yield single("everbrook_live_readers_max_behind_bytes", survey.max_behind_bytes)
    yield single("everbrook_connections_open", survey.open)
    yield single("everbrook_connections_accepted_total", survey.accepted)
    yield single("everbrook_connections_congested", survey.congested)
    yield single("everbrook_connections_buffered_bytes", survey.buffered_bytes)


def _of_checkpoints(engine: EngineStats) -> Iterator[Family]:
    made = engine.checkpoints
    outcomes = [(("ok",), made.done), (("failed",), made.failed)] if made else []
    yield single("everbrook_journal_bytes", made.journal_bytes if made else None)
    yield family("everbrook_checkpoints_total", outcomes)
    yield single("everbrook_checkpoint_seconds_total", made.secs if made else None)
    yield single("everbrook_checkpoint_last_seconds", made.last_secs if made else None)
