"""`python -m bench.overload`: goodput at three times the sustained rate, with the control and without it."""

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

import uvloop

from bench.overload.client import PAYLOAD_BYTES, Client
from bench.overload.course import Course, Crowd, run
from bench.processes import HOST, ServerProcess, free_port

MODES = ("memory", "acid")
KINDS = {"off": ("off", False), "ignoring": ("on", False), "heeding": ("on", True)}
WANTED_RATIO = 0.8
PATIENCE = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 if an acknowledged append was lost, or the control does not hold what it should."""
    parser = argparse.ArgumentParser(prog="bench.overload", description=__doc__)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--kinds", default=",".join(KINDS), help="off: no control; ignoring, heeding: clients with it")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    courses: dict[str, Course] = {}
    for mode in options.modes.split(","):
        for kind in options.kinds.split(","):
            courses[f"{mode}, {kind}"] = measure(mode, kind, options.connections, options.seconds)
            print(_line(f"{mode}, {kind}", courses[f"{mode}, {kind}"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({name: asdict(course) for name, course in courses.items()}, indent=1))
    return int(any(_failed(name, course) for name, course in courses.items()))


def _failed(name: str, course: Course) -> bool:
    if course.lost_acknowledged:
        return True
    return "off" not in name and course.goodput_ratio < WANTED_RATIO


def _line(name: str, course: Course) -> str:
    over, after = course.overloaded, course.afterwards
    return (
        f"{name}: sustained {course.sustained_per_sec:,.0f}/s, most {course.max_goodput_per_sec:,.0f}/s; "
        f"offered {over.offered_per_sec:,.0f}/s: goodput {over.goodput_per_sec:,.0f}/s ({course.goodput_ratio:.0%}; "
        f"by CPU {course.cpu_ratio:.0%} of {course.most_per_cpu_sec:,.0f} a CPU second), "
        f"p50 {over.p50_ms:.0f} p99 {over.p99_ms:.0f} max {over.max_ms:.0f} ms, late {over.late:,}, "
        f"refused {over.refused:,}, withheld {over.withheld:,}, unsent {over.unsent:,}, cut off {over.lost:,}; "
        f"afterwards {course.recovered_ratio:.0%} of what is offered, p99 {after.p99_ms:.0f} ms; "
        f"acknowledged {course.acknowledged:,}, of them lost {course.lost_acknowledged}"
    )


def measure(mode: str, kind: str, connections: int, seconds: float) -> Course:
    """Measure one server."""
    control, heeding = KINDS[kind]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(start(mode, folder, control=control == "on"))
        return uvloop.run(_measure(server, connections, seconds, heeding=heeding))


def start(mode: str, folder: str, *, control: bool) -> ServerProcess:
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
    return ServerProcess([sys.executable, "-m", "everbrook", "serve"], settings, port, stop_timeout_secs=20)


async def _measure(server: ServerProcess, connections: int, seconds: float, *, heeding: bool) -> Course:
    port = server.port
    clients = [Client(port, number, heeding=heeding) for number in range(connections)]
    for client in clients:
        _request(port, "PUT", client.path)
        client.connect()
    await asyncio.sleep(0.5)
    (sustained, most, most_per_cpu_sec), overloaded, afterwards = await run(Crowd(clients, server.pid), seconds)
    for client in clients:
        client.close()
    await asyncio.sleep(0.2)
    return Course(
        sustained,
        most,
        overloaded,
        afterwards,
        most_per_cpu_sec,
        overloaded.goodput_per_sec / most,
        overloaded.goodput_per_cpu_sec / most_per_cpu_sec,
        afterwards.goodput_per_sec / afterwards.offered_per_sec,
        sum(len(client.acknowledged) for client in clients),
        sum(_lost(port, client) for client in clients),
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
