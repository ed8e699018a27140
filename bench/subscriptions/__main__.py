"""`python -m bench.subscriptions`: measure what subscriptions cost, print the tables, write the JSON."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.__main__ import names_of
from bench.channel import LoadFailed
from bench.extensions.section import Section, format_sections
from bench.processes import StartFailed
from bench.report import machine
from bench.streams import SetupFailed
from bench.subscriptions.appends import measure_appending
from bench.subscriptions.size import DEFAULT_MODES, FULL, MODES, QUICK, Size
from bench.subscriptions.start_time import measure_starting
from bench.subscriptions.wakes import measure_waking

_RESULTS = Path(__file__).resolve().parents[1] / "results"

Part = Callable[[str, Size], list[Section]]
PARTS: Mapping[str, Part] = {
    "appending": measure_appending,
    "waking": measure_waking,
    "starting": measure_starting,
}


def main(arguments: Sequence[str] | None = None, quick: Size = QUICK) -> int:
    """Run what was asked for; 1 if a server refused, broke a connection or did not start."""
    options = _parse(arguments, quick)
    sections: list[Section] = []
    try:
        for section in _run(options):
            sections.append(section)
            print(format_sections([section]), flush=True)
    except (LoadFailed, SetupFailed, StartFailed, OSError) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    write_json(sections, options.size, options.json)
    print(f"Every sample is in {options.json}.")
    return 0


def _parse(arguments: Sequence[str] | None, quick: Size) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.subscriptions", description=f"Parts: {', '.join(PARTS)}.")
    parser.add_argument("--quick", action="store_true", help="one round of small sizes: a check, not a measurement")
    parser.add_argument("--rounds", type=int, help=f"how often everything takes turns (default {FULL.rounds})")
    parser.add_argument("--parts", type=names_of(PARTS), default=tuple(PARTS), help="comma-separated")
    parser.add_argument("--modes", type=names_of(MODES), default=DEFAULT_MODES, help="comma-separated")
    parser.add_argument(
        "--json", type=Path, default=_RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-subscriptions.json"
    )
    options = parser.parse_args(arguments)
    size = quick if options.quick else FULL
    options.size = replace(size, rounds=options.rounds) if options.rounds else size
    return options


def _run(options: argparse.Namespace) -> Iterator[Section]:
    for part in options.parts:
        for mode in options.modes:
            print(f"{part}, {mode} …", file=sys.stderr)
            yield from PARTS[part](mode, options.size)


def write_json(sections: Sequence[Section], size: Size, path: Path) -> None:
    """Write every sample beside the tables made from them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "size": asdict(size), "sections": [asdict(section) for section in sections]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
