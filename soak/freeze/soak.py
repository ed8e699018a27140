"""The course of `soak freeze`: a control run of the normal tenant alone, then one run beside each kind of attack."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct

from bench.summary import percentile
from soak.client import Client
from soak.freeze.attacks import ATTACKS, MARK, prepare
from soak.freeze.tenant import REFUSED
from soak.freeze.watchdog import Stalls, parse_stalls
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import EVERBROOK, HOST, Server

MAX_P99_RATIO = 5.0
MAX_WAIT_SECS = 0.25
LEAST_P99_SECS = 0.002
"""A control run that is quicker counts as if it took so long: below, the noise of the machine is larger."""
CONTROL_SECS = 10.0
ATTACK_SECS = 8.0
LEAST_SAMPLES = 100


class Wait(Struct, frozen=True):
    """Something that the normal tenant waited for."""

    what: str
    began: float
    ended: float


class Figures(Struct, frozen=True):
    """What the normal tenant has seen during one kind of attack."""

    kind: str
    attacks: int
    p99_secs: float
    worst_secs: float
    worst_of: str
    samples: int
    refused: int


def soak_freeze(mode: str, folder: Path, *, only: Sequence[str] = (), secs: float = ATTACK_SECS) -> list[Figures]:
    """Run all kinds in one storage mode. Raises `PromiseBroken` with the table if the normal tenant had to wait."""
    keys = folder / "keys.json"
    hostile, normal = (_make_key(keys, f"admin:/ds/{name}") for name in ("hostile", "normal"))
    owner = _make_key(keys, "admin:/")
    settings = {"DS_AUTH__API_KEYS_PATH": str(keys), "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true"}
    data = folder / "data"
    with Server(mode, data, settings=settings) as server:
        _make_buckets(server, owner)
        prepare(server.port, hostile)
        if mode != "memory":
            server.stop()
            _damage(data)
            server.start()
        control = _run(server, normal, hostile, "", CONTROL_SECS)
        kinds = [kind for kind in only or ATTACKS if mode != "memory" or kind != "damaged"]
        rows = [control] + [_run(server, normal, hostile, kind, secs) for kind in kinds]
    say(f"{mode}\n{format_rows(rows)}")
    broken = [problem for row in rows[1:] for problem in problems_of(row, control)]
    if broken:
        raise PromiseBroken(f"{mode}: {'; '.join(broken)}")
    return rows


def problems_of(row: Figures, control: Figures) -> Iterator[str]:
    """Give what is wrong with the figures of an attack."""
    ratio = row.p99_secs / max(control.p99_secs, LEAST_P99_SECS)
    if row.samples < LEAST_SAMPLES:
        yield f"{row.kind}: the normal tenant got {row.samples} answers"
    if row.refused:
        yield f"{row.kind}: the normal tenant was refused {row.refused} times"
    if ratio > MAX_P99_RATIO:
        yield f"{row.kind}: p99 {row.p99_secs * 1000:.1f} ms is {ratio:.1f} times that of the control"
    if row.worst_secs > MAX_WAIT_SECS:
        yield f"{row.kind}: one {row.worst_of} waited {row.worst_secs * 1000:.0f} ms"


def format_rows(rows: Sequence[Figures]) -> str:
    """Write the figures as a table."""
    lines = [f"{'attack':12} {'attacks':>8} {'waits':>7} {'p99 ms':>8} {'x':>5} {'worst ms':>9} {'refused':>8} of"]
    for row in rows:
        ratio = row.p99_secs / max(rows[0].p99_secs, LEAST_P99_SECS)
        lines.append(
            f"{row.kind or '(control)':12} {row.attacks:8} {row.samples:7} {row.p99_secs * 1000:8.1f} {ratio:5.1f} "
            f"{row.worst_secs * 1000:9.0f} {row.refused:8} {row.worst_of}"
        )
    return "\n".join(lines)


def _run(server: Server, normal: str, hostile: str, kind: str, secs: float) -> Figures:
    origin = f"http://{HOST}:{server.port}"
    attacks = 0
    with (
        _process("soak.freeze.watchdog") as watchdog,
        _process("soak.freeze.tenant", origin, normal, str(secs)) as tenant,
    ):
        if kind:
            command = [sys.executable, "-m", "soak.freeze.attacks", str(server.port), hostile, kind, str(secs)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=secs + 60, check=True)  # noqa: S603
            attacks = int(done.stdout)
        tenant.process.wait(secs + 60)
        if tenant.process.returncode:
            raise PromiseBroken(f"{kind}: the normal tenant was refused or left without an answer:\n{tenant.read()}")
        waits = [parse_wait(line) for line in tenant.read().splitlines()]
        watchdog.process.send_signal(SIGTERM)
        watchdog.process.wait()
        stalls = parse_stalls(watchdog.read())
    return figures_of(kind, attacks, waits, stalls)


def parse_wait(line: str) -> Wait:
    """Read a line of the normal tenant."""
    what, began, ended = line.split()
    return Wait(what, float(began), float(ended))


def figures_of(kind: str, attacks: int, waits: Sequence[Wait], stalls: Stalls) -> Figures:
    """Sum up. A wait counts without the time in which the machine itself stood still."""
    counted = [(wait.ended - wait.began - stalls.overlap_secs(wait.began, wait.ended), wait.what) for wait in waits]
    worst_secs, worst_of = max(counted, default=(0.0, "nothing"))
    p99_secs = percentile(sorted(secs for secs, _ in counted) or [0.0], 0.99)
    refused = sum(wait.what == REFUSED for wait in waits)
    return Figures(kind, attacks, p99_secs, worst_secs, worst_of, len(counted), refused)


class _Running(Struct, frozen=True):
    """A process, and the file that it prints to."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def read(self) -> str:
        self.output.seek(0)
        return self.output.read().decode()


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[_Running]:
    with TemporaryFile() as output:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        try:
            yield _Running(process, output)
        finally:
            process.kill()
            process.wait()


def _make_key(keys: Path, scope: str) -> str:
    command = [EVERBROOK, "apikey", "create", "--file", str(keys), "--scope", scope]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    return done.stdout.strip()


def _make_buckets(server: Server, owner: str) -> None:
    client = Client(server.port)
    for name in ("hostile", "normal"):
        client.expect({201}, "PUT", f"/ds/{name}", Authorization=f"Bearer {owner}")
    client.close()


def _damage(data: Path) -> None:
    """Flip a bit in each stream that was made to be damaged."""
    found = 0
    for path in (path for path in data.rglob("*") if path.is_file()):
        content = bytearray(path.read_bytes())
        at = content.find(MARK * 100)
        while at >= 0:
            found += 1
            content[at + 50] ^= 1
            at = content.find(MARK * 100, at + len(MARK) * 4000)
        path.write_bytes(content)
    if not found:
        raise PromiseBroken("no stream was found to be damaged")
