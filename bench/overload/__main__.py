"""`python -m bench.overload`: goodput at three times what a server can do, with the control and without it."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import uvloop

from bench.overload.client import PAYLOAD_BYTES, Client
from bench.overload.course import FACTOR, IN_TIME_SECS, Course, Crowd, Phase, recovered_after, summarize
from bench.processes import HOST, ServerProcess, free_port

MODES = ("memory", "acid")
KINDS = {"off": ("off", False), "ignoring": ("on", False), "heeding": ("on", True)}
WANTED_RATIO = 0.8
WANTED_P99_MS = 1000
WANTED_RECOVERY_SECS = 3.0
PATIENCE = 20
SATURATE_SECS = 1.5
# So many requests of each client are under way while the most that a server can do is measured.
WINDOW = 8
SLOWED_WINDOW = 1
SETTLE_SECS = 2.0
STEP_SECS = 0.5
STEPS = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 if an acknowledged append was lost, or the control does not hold what it should."""
    parser = argparse.ArgumentParser(prog="bench.overload", description=__doc__)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--kinds", default=",".join(KINDS), help="off: no control; ignoring, heeding: clients with it")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each server is overloaded")
    parser.add_argument("--slowed", action="store_true", help="a server that sleeps, for a machine that is busy")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    courses: dict[str, Course] = {}
    for mode in options.modes.split(","):
        for kind in options.kinds.split(","):
            courses[f"{mode}, {kind}"] = measure(mode, kind, options)
            print(_line(f"{mode}, {kind}", courses[f"{mode}, {kind}"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({name: asdict(course) for name, course in courses.items()}, indent=1))
    return int(any(_failed(name, course) for name, course in courses.items()))


def _failed(name: str, course: Course) -> bool:
    if course.lost_acknowledged:
        return True
    if "off" in name:
        return False
    recovered = course.recovery_secs is not None and course.recovery_secs <= WANTED_RECOVERY_SECS
    return course.free_ratio < WANTED_RATIO or course.overloaded.p99_ms > WANTED_P99_MS or not recovered


def _line(name: str, course: Course) -> str:
    over, most = course.overloaded, course.most
    recovery = "not" if course.recovery_secs is None else f"in {course.recovery_secs:g} s"
    return (
        f"{name}: most {most.goodput_per_sec:,.0f}/s ({most.goodput_per_free_sec:,.0f} free, "
        f"{most.goodput_per_cpu_sec:,.0f} CPU; {_use(most)}){_again(course.most_again)}; "
        f"offered {over.offered_per_sec:,.0f}/s: "
        f"goodput {over.goodput_per_sec:,.0f}/s ({course.ratio:.0%}; free {course.free_ratio:.0%}; "
        f"CPU {over.goodput_per_cpu_sec / most.goodput_per_cpu_sec:.0%}; {_use(over)}), "
        f"p50 {over.p50_ms:.0f} p99 {over.p99_ms:.0f} max {over.max_ms:.0f} ms, late {over.late:,}, "
        f"refused {over.refused:,}, withheld {over.withheld:,}, unsent {over.unsent:,}, cut off {over.cut_off:,}, "
        f"unanswered {over.unanswered:,}; recovered {recovery}, then p99 {course.afterwards.p99_ms:.0f} ms; "
        f"acknowledged {course.acknowledged:,}, of them lost {course.lost_acknowledged}"
    )


def _again(most: Phase | None) -> str:
    return f", again {most.goodput_per_sec:,.0f}/s ({_use(most)})" if most else ""


def _use(phase: Phase) -> str:
    return f"{phase.cores:.2f} cores, starved {1 - phase.free:.0%}"


def measure(mode: str, kind: str, options: argparse.Namespace) -> Course:
    """Measure one server."""
    control, heeding = KINDS[kind]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(start(mode, folder, control=control == "on", slowed=options.slowed))
        return uvloop.run(_measure(server, options, heeding=heeding))


def start(mode: str, folder: str, *, control: bool, slowed: bool) -> ServerProcess:
    """Describe a server in which nothing but time is short."""
    port = free_port()
    settings = {
        "DS_SERVER__PORT": str(port),
        "DS_STORAGE__MODE": mode,
        "DS_STORAGE__DATA_DIR": folder,
        "DS_LIMITS__MAX_MEMORY_BYTES": str(4 << 30),
        "DS_LIMITS__MAX_STREAM_BYTES": str(1 << 30),
        "DS_LOG__LEVEL": "warn",
    }
    if not control:
        settings |= {"DS_LIMITS__OVERLOAD_WAIT_SECS": "0", "DS_LIMITS__OVERLOAD_COMMIT_SECS": "0"}
    module = "bench.overload.slowed" if slowed else "everbrook"
    return ServerProcess([sys.executable, "-m", module, "serve"], settings, port, stop_timeout_secs=20)


async def _measure(server: ServerProcess, options: argparse.Namespace, *, heeding: bool) -> Course:
    clients = [Client(server.port, number, heeding=heeding) for number in range(options.connections)]
    for client in clients:
        _request(server.port, "PUT", client.path)
        client.connect()
    await asyncio.sleep(0.3)
    crowd = Crowd(clients, server.pid)
    window = SLOWED_WINDOW if options.slowed else WINDOW
    most = await crowd.saturate(SATURATE_SECS, window)
    rate = most.goodput_per_sec
    await crowd.offer(FACTOR * rate, SETTLE_SECS)
    overload = await crowd.offer(FACTOR * rate, options.seconds)
    steps = [await crowd.offer(rate / 2, STEP_SECS) for _ in range(STEPS)]
    await asyncio.sleep(IN_TIME_SECS)
    recovery_secs = recovered_after([tallies for tallies, _ in steps], STEP_SECS)
    most_again = None if recovery_secs is None else await crowd.saturate(SATURATE_SECS, window)
    overloaded, mosts = summarize(*overload), [most, most_again or most]
    for client in clients:
        client.close()
    await asyncio.sleep(0.1)
    return Course(
        most,
        overloaded,
        recovery_secs,
        summarize(*steps[-1]),
        most_again,
        overloaded.goodput_per_sec / fmean(each.goodput_per_sec for each in mosts),
        overloaded.goodput_per_free_sec / fmean(each.goodput_per_free_sec for each in mosts),
        sum(len(client.acknowledged) for client in clients),
        sum(_lost(server.port, client) for client in clients),
    )


def _lost(port: int, client: Client) -> int:
    """Read a stream to its end, and count what was acknowledged and is not in it."""
    found: set[int] = set()
    target = f"{client.path}?offset=-1"
    while True:
        headers, body = _request(port, "GET", target)
        found.update(int(body[at : at + 16]) for at in range(0, len(body), PAYLOAD_BYTES))
        if headers.get("Stream-Up-To-Date") == "true":
            return len(set(client.acknowledged) - found)
        target = f"{client.path}?offset={headers['Stream-Next-Offset']}"


def _request(port: int, method: str, target: str) -> tuple[dict[str, str], bytes]:
    request = urllib.request.Request(f"http://{HOST}:{port}{target}", method=method)
    if method == "PUT":
        request.add_header("Content-Type", "text/plain")
    for _ in range(PATIENCE):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return dict(answer.headers.items()), answer.read()
        except urllib.error.HTTPError as refusal:
            refusal.close()
            time.sleep(int(refusal.headers.get("Retry-After", "1")))
    raise RuntimeError(f"{method} {target} was refused {PATIENCE} times")


if __name__ == "__main__":
    sys.exit(main())
