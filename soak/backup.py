"""Backups of a store with many streams and much in it, under load: how fast, at what cost to who appends, and whole.

The cost is told as a ratio: appends a second and their latency while a backup runs, against those just before it.
"""

import json
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from soak.client import Client
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import EVERBROOK, HOST, Server

WRITERS = 4
QUIET_SECS = 5.0
FILLING_BYTES = 1_000_000
TIMEOUT_SECS = 1_800
# In MB a second.
SLOW_RATE = "25"


@dataclass(slots=True)
class Probe:
    """Writers that append one message at a time, and how long each took."""

    port: int
    taken: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0] * WRITERS)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, number: int) -> None:
        """Append until told to stop."""
        client = Client(self.port)
        while not self.stop.is_set():
            began = time.monotonic()
            client.expect({204}, "POST", f"/v1/stream/probe/{number}", b"x" * 200, content_type="text/plain")
            self.taken.append(time.monotonic() - began)
            self.counts[number] += 1
        client.close()

    def measure(self, secs: float) -> tuple[float, float]:
        """Give appends a second and the 99th percentile of their latency in ms, over some seconds."""
        taken: list[float] = []
        self.taken = taken
        time.sleep(secs)
        return rate_of(taken, secs)


def rate_of(taken: list[float], secs: float) -> tuple[float, float]:
    """Give appends a second, and the 99th percentile of their latency in ms."""
    ordered = sorted(taken)
    return len(ordered) / secs, ordered[len(ordered) * 99 // 100] * 1000 if ordered else 0.0


def fill(port: int, streams: int, megabytes: int) -> None:
    """Make many streams, and a few large ones."""
    client = Client(port)
    for number in range(streams):
        client.expect({201}, "PUT", f"/v1/stream/many/{number}", b"x" * 100, content_type="text/plain")
    for number in range(8):
        client.expect({201}, "PUT", f"/v1/stream/large/{number}", content_type="text/plain")
    filling = bytes(range(256)) * (FILLING_BYTES // 256)
    for number in range(megabytes):
        body = number.to_bytes(8, "big") + filling
        client.expect({204}, "POST", f"/v1/stream/large/{number % 8}", body, content_type="text/plain")
    for number in range(WRITERS):
        client.expect({201}, "PUT", f"/v1/stream/probe/{number}", content_type="text/plain")
    client.close()


def run_line(*args: object) -> dict[str, object]:
    """Run a command, and give what it tells."""
    command = [EVERBROOK, *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECS, check=False)  # noqa: S603
    if done.returncode:
        raise PromiseBroken(f"{' '.join(command[1:])}: {done.stderr}")
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def soak_backup(mode: str, folder: Path, *, streams: int, megabytes: int) -> None:
    """Back a server up under load: all of it, what is new, and slowly. What is restored of the last one must have
    everything that was acknowledged before.
    """
    with Server(mode, folder / "data") as server:
        fill(server.port, streams, megabytes)
        probe = Probe(server.port)
        threads = [threading.Thread(target=probe.run, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            _back_up(mode, "first", server.port, folder, probe)
            _back_up(mode, "second", server.port, folder, probe)
            acknowledged = _back_up(mode, "slow", server.port, folder, probe, "--full", "--max-rate", SLOW_RATE)
        finally:
            probe.stop.set()
            for thread in threads:
                thread.join()
    restored = run_line("restore", folder / "dest", folder / "restored")
    with Server(mode, folder / "restored") as server:
        client = Client(server.port)
        for number, count in enumerate(acknowledged):
            tail = client.expect({200}, "HEAD", f"/v1/stream/probe/{number}").next_offset
            if tail < count * 200:
                raise PromiseBroken(
                    f"{mode}: {count} appends were acknowledged before the backup, it has {tail // 200}"
                )
        client.close()
    say(f"{mode}: restored {restored['streams']:,} streams, every byte verifies")


def _back_up(mode: str, word: str, port: int, folder: Path, probe: Probe, *options: str) -> list[int]:
    quiet_rate, quiet_ms = probe.measure(QUIET_SECS)
    acknowledged = list(probe.counts)
    taken: list[float] = []
    probe.taken = taken
    began = time.monotonic()
    facts = run_line("backup", f"http://{HOST}:{port}", folder / "dest", "--no-check", *options)
    secs = time.monotonic() - began
    rate, ms = rate_of(taken, secs)
    total, copied = int(str(facts["bytes"])), int(str(facts["copied_bytes"]))
    say(
        f"{mode}: the {word} backup: {facts['files']:,} files, {total / 1e6:.0f} MB, copied {copied / 1e6:.1f} MB in "
        f"{float(str(facts['secs'])):.1f} s ({total / 1e6 / float(str(facts['secs'])):.0f} MB/s); appends "
        f"{rate / quiet_rate:.2f} of the {quiet_rate:.0f}/s before, p99 {ms:.1f} ms against {quiet_ms:.1f} ms"
    )
    return acknowledged
