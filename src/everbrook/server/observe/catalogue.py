"""Every metric of the server: its name, kind, labels and meaning, each written once.

The collector can export no other metric. `python -m everbrook.server.observe.catalogue` writes the table of metrics in
`docs/observability.md` of the current folder; a test fails while the table is outdated. A label is one of a few words
of the code, never the name of a stream or another value that a client chooses: the number of series stays bounded.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from everbrook.server.observe.counters import COUNTED

PROCESS_METRICS = {
    "process_cpu_seconds_total": "Processor time of all threads of the server.",
    "process_resident_memory_bytes": "Resident memory of the server.",
    "process_virtual_memory_bytes": "Virtual memory of the server.",
    "process_start_time_seconds": "When the server started, in seconds since the epoch.",
    "process_open_fds": "Open files and connections.",
    "process_max_fds": "The limit of open files and connections.",
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
        "Responses that were sent, or streamed responses that began.",
        ("operation", "method", "status"),
    ),
    Metric(
        "everbrook_request_duration_seconds",
        H,
        "From the receipt of a complete request until the last byte of its response was handed to the socket, or the "
        "first byte of a streamed response. The duration of a long-poll includes its wait.",
        ("operation",),
    ),
    Metric("everbrook_response_bytes_total", C, "Bytes in the bodies of responses.", ("operation",)),
    Metric("everbrook_refusals_total", C, "Refused requests, by the code of the refusal.", ("code",)),
    Metric("everbrook_appended_messages_total", C, "Messages that became durable."),
    Metric("everbrook_appended_bytes_total", C, "Bytes of messages that became durable."),
    Metric("everbrook_duplicate_appends_total", C, "Appends that a producer sent again, and that changed nothing."),
    Metric(
        "everbrook_commit_group_changes",
        H,
        "Changes that one sync made durable. Memory mode has no groups.",
    ),
    Metric("everbrook_commit_sync_seconds", H, "The time that the disk needed to make a group durable."),
    Metric("everbrook_commit_refused_groups_total", C, "Groups that did not fit on the disk."),
    Metric("everbrook_commit_pending_changes", G, "Changes that are not durable yet."),
    Metric("everbrook_commit_oldest_pending_seconds", G, "The time for which the oldest of them has waited."),
    Metric(
        "everbrook_commit_stalled",
        G,
        "1 if changes have waited for 10 s and none has become durable; `/readyz` is 503 then.",
    ),
    Metric("everbrook_commit_parked_answers", G, "Responses that wait until their change is durable."),
    Metric("everbrook_live_readers", G, "Live readers, by mode and surface.", ("mode", "surface")),
    Metric("everbrook_live_readers_behind", G, "SSE readers that have not yet received all durable messages."),
    Metric("everbrook_live_readers_max_behind_bytes", G, "The bytes that the slowest of them has not received."),
    Metric("everbrook_connections_open", G, "Open connections."),
    Metric("everbrook_connections_accepted_total", C, "Accepted connections."),
    Metric("everbrook_connections_congested", G, "Connections whose clients read too slowly."),
    Metric("everbrook_connections_buffered_bytes", G, "Bytes that wait for clients to read them."),
    Metric("everbrook_event_loop_lag_seconds", H, "The delay of a timer that runs four times a second."),
    Metric(
        "everbrook_faults_total",
        C,
        "Exceptions in callbacks, by callback. The log has their stacks; only `commit` stops writes.",
        ("callback",),
    ),
    Metric("everbrook_storage_failed", G, "1 if the storage takes no more writes until the server is restarted."),
    Metric(
        "everbrook_storage_damaged_streams", G, "Streams that are known to be damaged; `/readyz` says `degraded` then."
    ),
    Metric("everbrook_storage_streams", G, "Stored streams, by surface.", ("surface",)),
    Metric("everbrook_storage_resident_streams", G, "Streams whose state is in memory."),
    Metric(
        "everbrook_storage_loaded_bytes",
        G,
        "The approximate memory for the state of those streams and their producers.",
    ),
    Metric("everbrook_storage_memory_bytes", G, "The memory for stored streams, in memory mode."),
    Metric("everbrook_storage_disk_bytes", G, "The disk space of the data folder. The value may be a minute old."),
    Metric("everbrook_storage_disk_free_bytes", G, "The free space on that disk."),
    Metric("everbrook_storage_disk_size_bytes", G, "The size of that disk."),
    Metric("everbrook_journal_bytes", G, "Bytes in the journal that no checkpoint has moved into the base yet."),
    Metric(
        "everbrook_checkpoints_total", C, "Checkpoints that moved the journal into the base, by outcome.", ("outcome",)
    ),
    Metric("everbrook_checkpoint_seconds_total", C, "The time for all checkpoints."),
    Metric("everbrook_checkpoint_last_seconds", G, "The time for the last checkpoint."),
    Metric("everbrook_subscriptions", G, "Subscriptions, by type and surface.", ("type", "surface")),
    Metric("everbrook_subscriptions_awake", G, "Subscriptions whose worker has not finished its wake."),
    Metric("everbrook_subscriptions_failing", G, "Subscriptions whose last webhook was not accepted."),
    Metric(
        "everbrook_subscriptions_blocked",
        G,
        "Subscriptions that can't wake their worker: the wake stream is full or missing, or the disk is full.",
    ),
    Metric("everbrook_webhook_deliveries_total", C, "Delivered webhooks, by outcome.", ("outcome",)),
    Metric("everbrook_webhook_delivery_seconds", H, "The time that receivers needed to respond."),
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
    """Return the page with its table replaced."""
    return _TABLE.sub(lambda _: format_table(), page)


def write() -> None:
    """Rewrite the page in the current folder."""
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
