"""The run with all servers: who can, case after case, then the tables, the JSON and the page."""

import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.cases import CASES
from bench.constant import generator_cost_us
from bench.peers.charts import write_page
from bench.peers.report import PeersReport, format_report, skipped_lines, write_json
from bench.peers.servers import available, groups_of
from bench.peers.turns import standing_of, take_all_turns
from bench.subjects import Subject


def run_all(
    servers: Sequence[Subject],
    *,
    cases: Sequence[str] | None,
    rounds: int,
    seconds: float,
    versions: Mapping[str, str],
    path: Path,
) -> int:
    """Let all servers take turns; 1 if the first of a group, ours, failed in a case."""
    _raise_open_files()
    able, skipped = available(servers)
    for line in skipped_lines(skipped):
        print(line, file=sys.stderr)
    report = PeersReport(rounds, seconds, versions, generator_cost_us(min(seconds, 1.0)), skipped)
    groups = groups_of(able, cases)
    for group in groups:
        for case in (CASES[name] for name in group.cases):
            taking = [server for server in group.servers if server.takes(case.name)]
            print(f"{', '.join(server.name for server in taking)}: {case.title} …", file=sys.stderr)
            turns = take_all_turns(case, taking, rounds, seconds)
            report.add(standing_of(group, case, turns), turns)
            write_json(report, path)  # a run that is interrupted leaves what it had
    print(format_report(report))
    write_json(report, path)
    page = write_page(path)
    print(f"Every sample is in {path}, the page is {page}.")
    ours = {group.servers[0].name for group in groups}
    return int(any(ours & standing.failures.keys() for standing in report.standings))


def _raise_open_files() -> None:
    """A thousand readers need more open files than many systems allow at first; servers inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
