"""`python -m bench.client`: our client beside the official TypeScript client, on our server, in one run."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.__main__ import names_of
from bench.channel import LoadFailed
from bench.client.turns import ASYNC, CLIENTS, SYNC, THEIRS, Case, Turn, take_turn
from bench.extensions.section import Section, format_sections, verdict
from bench.extensions.store import serve, store_folder
from bench.processes import StartFailed
from bench.report import machine
from bench.streams import SetupFailed

ROUNDS = 3
QUICK_SHARE = 50
_RESULTS = Path(__file__).resolve().parents[1] / "results"
_HEADINGS = ("case", "messages", "per second: TypeScript", "async", "x", "sync", "x", "CPU µs each", "p50 / p99 ms")

CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case(name="append", title="append, one after the other", messages=5_000, warm=500),
        Case(name="together", title="append, 1,000 at a time", messages=100_000, warm=10_000),
        Case(name="produce", title="idempotent producer", messages=200_000, warm=20_000),
        Case(name="list", title="catch-up read into a list", messages=1_000_000, filled=True),
        Case(name="each", title="catch-up read, one by one", messages=1_000_000, filled=True),
        Case(name="follow", title="follow, bursts of 1,000", messages=500_000, live=True, burst=1_000),
        Case(name="latency", title="follow, 200 a second", messages=1_000, live=True, burst=1, rate=200.0),
    )
}
AIMED = "list"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 if a client or the server failed."""
    options = _parse(arguments)
    try:
        with store_folder() as folder, serve(options.mode, folder) as server:
            turns = _take_turns(server.port, options)
    except (LoadFailed, SetupFailed, StartFailed, OSError) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    print(format_sections([_section(options.mode, options.cases, turns)]))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "mode": options.mode, "turns": [asdict(turn) for turn in turns]}
    options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"Every turn is in {options.json}.")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.client", description=f"Cases: {', '.join(CASES)}.")
    parser.add_argument("--quick", action="store_true", help="one round of small sizes: a check, not a measurement")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often all take turns (default {ROUNDS})")
    parser.add_argument("--cases", type=names_of(CASES), default=tuple(CASES), help="comma-separated")
    parser.add_argument("--mode", default="memory", help="the server's storage mode (default memory)")
    parser.add_argument("--json", type=Path, default=_RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-client.json")
    return parser.parse_args(arguments)


def _take_turns(port: int, options: argparse.Namespace) -> list[Turn]:
    turns = []
    for name in options.cases:
        case = _smaller(CASES[name]) if options.quick else CASES[name]
        for number in range(1 if options.quick else options.rounds):
            print(f"{case.title}, round {number + 1} …", file=sys.stderr)
            turns += [take_turn(port, case, client, number) for client in CLIENTS]
    return turns


def _smaller(case: Case) -> Case:
    messages = max(case.messages // QUICK_SHARE, 1_000 if case.name == "together" else case.burst or 20)
    return replace(case, messages=messages, warm=0)


def _section(mode: str, cases: Sequence[str], turns: Sequence[Turn]) -> Section:
    section = Section(f"Our client beside the official TypeScript client: everbrook-{mode}", _HEADINGS)
    for name in cases:
        section.rows.append(_row(CASES[name], [turn for turn in turns if turn.case == name]))
    section.remarks.append(
        "x: ours beside TypeScript in the same round, the median of the rounds; above 1 is in our favour."
    )
    if AIMED in cases:
        ratio = _ratio([turn for turn in turns if turn.case == AIMED], ASYNC)
        section.remarks.append(verdict(f"{CASES[AIMED].title}: {ratio:.2f}x, aim >= 1", met=ratio >= 1))
    return section


def _row(case: Case, turns: Sequence[Turn]) -> tuple[str, ...]:
    by_client = {client: [turn for turn in turns if turn.client == client] for client in CLIENTS}
    speeds = {client: median(turn.per_second for turn in own) for client, own in by_client.items()}
    cpu = " | ".join(f"{median(turn.cpu_us for turn in own):.1f}" for own in by_client.values())
    waits = " | ".join(
        f"{median(turn.p50_ms for turn in own):.1f} / {median(turn.p99_ms for turn in own):.1f}"
        for own in by_client.values()
    )
    return (
        case.title,
        f"{case.messages:,}",
        f"{speeds[THEIRS]:,.0f}",
        f"{speeds[ASYNC]:,.0f}",
        f"{_ratio(turns, ASYNC):.2f}",
        f"{speeds[SYNC]:,.0f}",
        f"{_ratio(turns, SYNC):.2f}",
        cpu,
        waits if case.rate else "",
    )


def _ratio(turns: Sequence[Turn], client: str) -> float:
    """Compare within each round, where all met the same machine."""
    speeds = {(turn.round, turn.client): turn.per_second for turn in turns}
    rounds = sorted({turn.round for turn in turns})
    return median(speeds[number, client] / speeds[number, THEIRS] for number in rounds)


if __name__ == "__main__":
    sys.exit(main())
