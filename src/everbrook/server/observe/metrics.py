"""The resource `/metrics`: reads the numbers of all parts when metrics are requested, and at no other time."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.stats import EngineStats, Histogram
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT
from everbrook.protocol.read import NO_STORE
from everbrook.server.exchange import Request, Response
from everbrook.server.methods import READING, refuse_method
from everbrook.server.observe.catalogue import METRICS, Kind
from everbrook.server.observe.counters import COUNTED
from everbrook.server.observe.event_loop import LoopLag
from everbrook.server.observe.observer import Observer, TransportSurvey
from everbrook.server.observe.tallies import BOUNDS_SECS, Tally
from everbrook.settings import Settings, StorageSettings

Sample = tuple[Sequence[str], float]
SURFACES = {"base": STREAM_ROOT, "bucket": BUCKET_ROOT}


MAX_AGE_SECS = 60.0
MAX_FILES = 200_000


def family(name: str, samples: Iterable[Sample]) -> Family:
    """Make a counter or a gauge of the catalogue."""
    metric = METRICS[name]
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    filled = kind(name, metric.words, labels=metric.labels)
    for labels, value in samples:
        filled.add_metric(labels, value)
    return filled


def single(name: str, value: float | None) -> Family:
    """Make a metric with one value, or without values if it is None."""
    return family(name, [] if value is None else [((), value)])


def histogram(name: str, by_labels: Iterable[tuple[Sequence[str], Histogram]]) -> Family:
    """Make a histogram of the catalogue. Prometheus expects cumulative counts."""
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
    """The metrics of one server."""

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
        # One inspection for all metrics, so that their numbers belong to the same moment.
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


class MetricsResource:
    """The metrics, in the text format of Prometheus or as OpenMetrics."""

    def __init__(self, engine: Engine, subscriptions: Subscriptions, observer: Observer, settings: Settings) -> None:
        self._lag = LoopLag(asyncio.get_running_loop(), engine.faults)
        self._registry = CollectorRegistry()
        self._registry.register(ServerCollector(engine, subscriptions, observer, self._lag, settings))
        ProcessCollector(registry=self._registry)
        self._lag.start()

    def read(self, request: Request, common: bytes) -> Response:
        if request.method not in READING:
            raise refuse_method(request.method, b"GET, HEAD")
        encode, content_type = _encoder_for(request.headers.get(b"accept", b"").decode("latin-1"))
        lines = b"%bContent-Type: %b\r\nCache-Control: %b\r\n" % (common, content_type.encode(), NO_STORE)
        return Response(200, lines, encode(self._registry))

    def stop(self) -> None:
        self._lag.stop()


def _encoder_for(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Choose a format. An invalid version in `Accept` gets the default."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # the library compares the version with a number
        return choose_encoder("")


class DiskUse:
    """The disk that holds the streams, in a durable mode.

    The file system tells its free space at once. A thread sums up the used space at most once a minute, because a
    folder may contain many files. With too many files it is unknown.
    """

    def __init__(self, settings: StorageSettings, faults: Faults) -> None:
        self._faults = faults
        self._folder = Path(settings.data_dir) if settings.mode.durable else None
        self._summing: asyncio.Future[int | None] | None = None
        self._summed_at = 0.0
        self.used_bytes: int | None = None

    def free_and_size(self) -> tuple[int, int] | None:
        """Return the free bytes and the size of the disk."""
        try:
            usage = shutil.disk_usage(self._folder) if self._folder else None
        except OSError:
            return None
        return (usage.free, usage.total) if usage else None

    def look(self) -> None:
        """Sum up the used space in a thread, unless that was done recently."""
        if self._folder is None or self._summing or 0 < monotonic() - self._summed_at < MAX_AGE_SECS:
            return
        self._summing = asyncio.get_running_loop().run_in_executor(None, used_bytes_of, self._folder)
        self._summing.add_done_callback(self._faults.guarded(Callback.METRICS, self._take, self._rest))

    def _rest(self) -> None:
        self._summing = None

    def _take(self, summing: asyncio.Future[int | None]) -> None:
        self._summing = None
        self._summed_at = monotonic()
        # After a failed sum the last known value stays.
        if not summing.cancelled() and summing.exception() is None:
            self.used_bytes = summing.result()


def used_bytes_of(folder: Path) -> int | None:
    """Return the disk space of the files below a folder, or None if they are too many."""
    total = files = 0
    for path, _, names in os.walk(folder):
        files += len(names)
        if files > MAX_FILES:
            return None
        for name in names:
            total += _blocks_bytes(Path(path, name))
    return total


def _blocks_bytes(path: Path) -> int:
    """Return the disk space of a file, which is less than its length if it has holes; 0 if it was removed."""
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0
