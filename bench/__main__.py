"""`python -m bench`: run the cases, print the table, write the JSON."""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.cases import CASES, DEFAULT_CASES, DURABLE_CASES
from bench.constant import generator_cost_us
from bench.peers.run import run_all
from bench.peers.servers import server_by_command
from bench.processes import StartFailed
from bench.reference import node_version
from bench.report import Report, format_report, write_json
from bench.rounds import Contest, RoundFailed, take_turns
from bench.subjects import DEFAULT_PEERS, DEFAULT_SUBJECTS, PEER_VERSIONS, SUBJECTS, Subject, from_checkout
from tools.node import NodeUnavailable

_RESULTS = Path(__file__).resolve().parent / "results"
# With a disk there are more servers to take turns; so many rounds keep the whole run within ten minutes.
ROUNDS, DURABLE_ROUNDS, QUICK_ROUNDS = 5, 3, 2
SECONDS, QUICK_SECONDS = 2.0, 0.5


def main(
    arguments: Sequence[str] | None = None,
    subjects: Mapping[str, Subject] = SUBJECTS,
    node_version: Callable[[], str] = node_version,
) -> int:
    """Run what was asked for; 1 if a server refused, broke a connection or did not start."""
    options = _parse(arguments, subjects)
    if options.peers or options.peer:
        return _run_peers(options, subjects)
    options.subjects = options.subjects or DEFAULT_SUBJECTS
    if options.before:
        pairs = [from_checkout(subjects[name], options.before) for name in options.subjects]
        subjects = {subject.name: subject for pair in pairs for subject in pair}
    try:
        report = _run(options, subjects, {"everbrook": version("everbrook"), "node": node_version()})
    except (RoundFailed, StartFailed, NodeUnavailable) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    print(format_report(report))
    write_json(report, options.json)
    print(f"Every sample is in {options.json}.")
    return 0


def _parse(arguments: Sequence[str] | None, subjects: Mapping[str, Subject]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=f"Cases: {', '.join(CASES)}.")
    parser.add_argument("--quick", action="store_true", help="2 rounds of half a second: a check, not a measurement")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"how often the servers take turns in each case (default {ROUNDS}, {DURABLE_ROUNDS} with a disk)",
    )
    parser.add_argument("--seconds", type=float, help="how long each turn lasts (default 2)")
    parser.add_argument("--cases", type=names_of(CASES), help="comma-separated")
    parser.add_argument("--subjects", type=names_of(subjects), help="comma-separated")
    parser.add_argument("--peers", action="store_true", help="all servers take turns, each alone while it is measured")
    parser.add_argument(
        "--peer",
        type=server_by_command,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="with --peers: one more server; {port} and, for a durable one, {folder} stand for what it is given",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="compare with the same modes of another checkout, which runs with the packages of this one",
    )
    parser.add_argument("--json", type=Path, default=_RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else None)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    return options


def _run_peers(options: argparse.Namespace, subjects: Mapping[str, Subject]) -> int:
    servers = [subjects[name] for name in options.subjects or DEFAULT_PEERS]
    return run_all(
        [*servers, *options.peer],
        cases=options.cases,
        rounds=options.rounds or ROUNDS,
        seconds=options.seconds,
        versions={"everbrook": version("everbrook"), **PEER_VERSIONS},
        path=options.json,
    )


def names_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Make a reader of comma-separated names out of those that are known."""

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return names

    return parse


def _run(options: argparse.Namespace, subjects: Mapping[str, Subject], versions: Mapping[str, str]) -> Report:
    report = Report(
        rounds=options.rounds or ROUNDS,
        seconds=options.seconds,
        versions=versions,
        generator_us=generator_cost_us(min(options.seconds, 1.0)),
    )
    for contest in contests([subjects[name] for name in options.subjects], subjects):
        durable = contest.memory is not None
        rounds = options.rounds or (DURABLE_ROUNDS if durable else ROUNDS)
        for case in (CASES[name] for name in options.cases or (DURABLE_CASES if durable else DEFAULT_CASES)):
            print(f"{', '.join(subject.name for subject in contest.subjects)}: {case.title} …", file=sys.stderr)
            for turns in take_turns(case, contest, rounds, options.seconds):
                report.add(turns)
    return report


def contests(chosen: Sequence[Subject], subjects: Mapping[str, Subject] = SUBJECTS) -> list[Contest]:
    """Let those with the same reference take turns together, so that it is measured once for all of them."""
    groups: dict[tuple[str, str | None], list[Subject]] = {}
    for subject in chosen:
        groups.setdefault((subject.reference or subject.name, subject.beside), []).append(subject)
    return [
        Contest(tuple(group), subjects[reference], subjects[beside] if beside else None)
        for (reference, beside), group in groups.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
