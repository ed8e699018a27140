"""Runs the upstream client suite with both sides of the client: `make client-conformance SUITE=folder`.

It is run as it is shipped and with every expectation counting, against the Node reference server and against Everbrook
behind a proxy that misbehaves as the suite wants it.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.client.contradictions import EVERBROOK, REFERENCE
from tests.conformance.client.misbehaving import Misbehaviour
from tests.conformance.client.runs import FOLDER, Summary, run
from tests.conformance.client.variants import SuiteUnusable, prepare
from tests.kit.faults.proxy import Proxy
from tests.kit.server_process import serving
from tools.node import Node, NodeUnavailable, find_node, install_packages

ADAPTERS = ("--sync", "--async")
ROW = "{:<8} {:<10} {:<8} {:>6} {:>7} {:>7} {:>8} {:>6}"


def main() -> int:
    """Run everything, tell the counts and the faults. The exit code says whether there were any."""
    asked = _arguments()
    try:
        shipped, strict = prepare(asked.suite)
        node = find_node()
        install_packages(FOLDER, node)
    except (NodeUnavailable, SuiteUnusable) as error:
        print(f"the client suite can't run: {error}", file=sys.stderr)  # noqa: T201
        return 2
    _say(ROW.format("adapter", "server", "checks", "total", "passed", "failed", "skipped", "secs"))
    faults = [fault for adapter in asked.adapter or ADAPTERS for fault in _run_all(node, adapter, shipped, strict)]
    _say("\n".join(faults) or "every expectation is met, but for the contradictions that are known")
    return 1 if faults else 0


def faults_of(summary: Summary, contradictions: Mapping[str, str]) -> list[str]:
    """What keeps a strict run from counting: failures without a reason, reasons without a failure, skipped tests."""
    failures = {case.name: case.error for case in summary.failures}
    ran = {case.name for case in summary.results}
    found = [f"failed: {name}: {error}" for name, error in failures.items() if name not in contradictions]
    stale = sorted((contradictions.keys() & ran) - failures.keys())
    found += [f"passed, though called a contradiction: {name}" for name in stale]
    return found + [f"skipped: {case.name}: {case.skip_reason}" for case in summary.results if case.skipped]


def _run_all(node: Node, adapter: str, shipped: Path, strict: Path) -> Iterator[str]:
    first = _told(run(node, shipped, adapter), adapter, "reference", "shipped")
    yield from (f"{adapter} reference shipped: failed: {case.name}: {case.error}" for case in first.failures)
    second = _told(run(node, strict, adapter), adapter, "reference", "strict")
    yield from (f"{adapter} reference strict: {fault}" for fault in faults_of(second, REFERENCE))
    with _everbrook() as url:
        third = _told(run(node, strict, adapter, url=url), adapter, "everbrook", "strict")
    yield from (f"{adapter} everbrook strict: {fault}" for fault in faults_of(third, EVERBROOK))


@contextmanager
def _everbrook() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), DS_SERVER__LONG_POLL_TIMEOUT_SECS="0.5") as server,
        Proxy(server.address[1], Misbehaviour()) as proxy,
    ):
        yield f"{proxy.origin}/v1/stream"


def _told(summary: Summary, adapter: str, server: str, checks: str) -> Summary:
    counts = summary.total, summary.passed, summary.failed, summary.skipped, round(summary.duration / 1000)
    _say(ROW.format(adapter.lstrip("-"), server, checks, *counts))
    return summary


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.client", description=__doc__)
    parser.add_argument("suite", type=Path, help="the folder packages/client-conformance-tests of the pinned commit")
    parser.add_argument("--adapter", action="append", help="sync, async, or ts for the official client; repeatable")
    asked = parser.parse_args()
    asked.adapter = [name if name == "ts" else f"--{name}" for name in asked.adapter or []]
    return asked


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it speaks to whoever runs it


if __name__ == "__main__":
    sys.exit(main())
