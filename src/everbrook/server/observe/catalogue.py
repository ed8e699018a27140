"""Every metric of the server: its name, kind, labels and meaning, each written once.

The collector can give no other metric. `python -m everbrook.server.observe.catalogue` writes the table of metrics in
`docs/observability.md` of the current folder from here; a test fails while it is old. A label is one of a few words
that the code has, never the name of a stream or anything else that a client chooses.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from everbrook.server.observe.counters import COUNTED

PROCESS_METRICS = {
    "process_cpu_seconds_total": "Processor time of the server, all threads.",
    "process_resident_memory_bytes": "Resident memory of the server.",
    "process_virtual_memory_bytes": "Virtual memory of the server.",
    "process_start_time_seconds": "When the server started, in seconds since the epoch.",
    "process_open_fds": "Open files and connections.",
    "process_max_fds": "How many may be open.",
}
"""The metrics of the process, which the Prometheus library adds if the system has `/proc`."""
PAGE = Path("docs/observability.md")
_TABLE = re.compile(r"(?<=<!-- metrics: begin -->\n).*(?=<!-- metrics: end -->)", re.DOTALL)


class Kind(StrEnum):
    """The kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(Struct, frozen=True):
    """One metric. `name` is as Prometheus stores it, without the suffixes of a histogram."""

    name: str
    kind: Kind
    words: str
    labels: tuple[str, ...] = ()


C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

_METRICS = (
    Metric("everbrook_info", G, "1, with the version and the storage mode as labels.", ("version", "storage")),
    Metric(
        "everbrook_requests_total",
        C,
        "Requests with a response, or whose streamed response began.",
        ("operation", "method", "status"),
    ),
    Metric(
        "everbrook_request_duration_seconds",
        H,
        "From the receipt of a whole request until the last byte of its response was passed to the socket; until the "
        "first byte if it is streamed. A long-poll takes as long as it waits.",
        ("operation",),
    ),
    Metric("everbrook_response_bytes_total", C, "Bytes of the bodies of responses.", ("operation",)),
    Metric("everbrook_refusals_total", C, "Requests that were refused, by the code of the refusal.", ("code",)),
    Metric("everbrook_appended_messages_total", C, "Messages that became durable."),
    Metric("everbrook_appended_bytes_total", C, "Bytes of messages that became durable."),
    Metric("everbrook_duplicate_appends_total", C, "Appends that a producer repeated, and that changed nothing."),
    Metric(
        "everbrook_commit_group_changes",
        H,
        "How many changes were made durable by one sync. Memory mode has no groups.",
    ),
    Metric("everbrook_commit_sync_seconds", H, "How long the disk took to make a group durable."),
    Metric("everbrook_commit_refused_groups_total", C, "Groups that did not fit on the disk."),
    Metric("everbrook_commit_pending_changes", G, "Changes that are not durable yet."),
    Metric("everbrook_commit_oldest_pending_seconds", G, "How long the oldest of them has been waiting."),
    Metric(
        "everbrook_commit_stalled",
        G,
        "1 if changes have waited for 10 s without any of them becoming durable; `/readyz` is 503 then.",
    ),
    Metric("everbrook_commit_parked_answers", G, "Responses that wait until their changes are durable."),
    Metric("everbrook_live_readers", G, "Readers that follow a stream, by mode.", ("mode", "surface")),
    Metric("everbrook_live_readers_behind", G, "SSE readers that have not received all durable messages."),
    Metric("everbrook_live_readers_max_behind_bytes", G, "Bytes that the slowest of them has not received."),
    Metric("everbrook_connections_open", G, "Connections that are open."),
    Metric("everbrook_connections_accepted_total", C, "Connections that were accepted."),
    Metric("everbrook_connections_congested", G, "Connections whose clients do not read their responses."),
    Metric("everbrook_connections_buffered_bytes", G, "Bytes that wait for clients to read them."),
    Metric("everbrook_event_loop_lag_seconds", H, "The delay of a timer that runs four times a second."),
    Metric(
        "everbrook_faults_total",
        C,
        "Exceptions in callbacks, by what raised. The log has their stacks; only `commit` stops writes.",
        ("callback",),
    ),
    Metric("everbrook_storage_failed", G, "1 if the storage takes no more writes until the server is restarted."),
    Metric("everbrook_storage_damaged_streams", G, "Streams that are known to be damaged; `/readyz` says `degraded`."),
    Metric("everbrook_storage_streams", G, "Streams that are stored, by surface.", ("surface",)),
    Metric("everbrook_storage_resident_streams", G, "Streams whose state is in memory."),
    Metric(
        "everbrook_storage_loaded_bytes",
        G,
        "Approximate memory of the state of those streams and of their producers.",
    ),
    Metric("everbrook_storage_memory_bytes", G, "Memory that stored streams take, in memory mode."),
    Metric("everbrook_storage_disk_bytes", G, "Size of the data folder on the disk; the value may be a minute old."),
    Metric("everbrook_storage_disk_free_bytes", G, "Free space on that disk."),
    Metric("everbrook_storage_disk_size_bytes", G, "Size of that disk."),
    Metric("everbrook_journal_bytes", G, "Bytes in the journal that are not in the base yet."),
    Metric("everbrook_checkpoints_total", C, "Checkpoints, by outcome.", ("outcome",)),
    Metric("everbrook_checkpoint_seconds_total", C, "Total duration of checkpoints."),
    Metric("everbrook_checkpoint_last_seconds", G, "Duration of the last checkpoint."),
    Metric("everbrook_subscriptions", G, "Subscriptions, by type and surface.", ("type", "surface")),
    Metric("everbrook_subscriptions_awake", G, "Subscriptions with a wake in progress."),
    Metric("everbrook_subscriptions_failing", G, "Subscriptions whose last webhook failed."),
    Metric(
        "everbrook_subscriptions_blocked",
        G,
        "Subscriptions that can't wake a worker: their wake stream is full or missing, or there is no space.",
    ),
    Metric("everbrook_webhook_deliveries_total", C, "Webhooks that were sent, by their outcome.", ("outcome",)),
    Metric("everbrook_webhook_delivery_seconds", H, "Response time of webhook receivers."),
    *(Metric(f"everbrook_{name}_total", C, each.meaning, (each.label,)) for name, each in COUNTED.items()),
)

METRICS = {metric.name: metric for metric in _METRICS}


def format_table() -> str:
    return "\n" + "\n".join(_lines()) + "\n\n"


def _lines() -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.words} |"
    for name, words in PROCESS_METRICS.items():
        yield f"| `{name}` | {'counter' if name.endswith('_total') else 'gauge'} | | {words} |"


def render_page(page: str) -> str:
    """Give the page with its table replaced."""
    return _TABLE.sub(lambda _: format_table(), page)


def write() -> None:
    """Rewrite the page in the current folder."""
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
