"""`python -m bench.spark`: measure the Spark connector, print the tables, write the JSON."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.__main__ import names_of
from bench.channel import LoadFailed
from bench.extensions.section import Section, format_sections
from bench.processes import StartFailed
from bench.report import machine
from bench.spark.batch import measure_batch
from bench.spark.capture import measure_capture
from bench.spark.copies import measure_copying
from bench.spark.folds import measure_folding
from bench.spark.lake import measure_lake
from bench.spark.latency import measure_latency
from bench.spark.offsets import measure_offsets
from bench.spark.scene import Scene, open_scene
from bench.spark.size import FULL, QUICK, Size
from bench.spark.tables import measure_tables
from bench.streams import SetupFailed
from everbrook.spark.connection import disconnect
from tools.node import NodeUnavailable

_RESULTS = Path(__file__).resolve().parents[1] / "results"

Part = Callable[[Scene], list[Section]]
PARTS: Mapping[str, Part] = {
    "batch": measure_batch,
    "capture": measure_capture,
    "copying": measure_copying,
    "folding": measure_folding,
    "lake": measure_lake,
    "latency": measure_latency,
    "offsets": measure_offsets,
    "postgres": measure_tables,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 if a server refused or did not start, or rows were missing."""
    options = _parse(arguments)
    try:
        sections = _run(options.parts, options.size)
    except (LoadFailed, SetupFailed, StartFailed, NodeUnavailable, OSError) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    write_json(sections, options.size, options.json)
    print(f"Every sample is in {options.json}.")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.spark", description=f"Parts: {', '.join(PARTS)}.")
    parser.add_argument("--quick", action="store_true", help="one round of small sizes: a check, not a measurement")
    parser.add_argument("--rounds", type=int, help=f"how often both servers take turns (default {FULL.rounds})")
    parser.add_argument("--parts", type=names_of(PARTS), default=tuple(PARTS), help="comma-separated")
    parser.add_argument("--alone", action="store_true", help="without the Node reference")
    parser.add_argument("--json", type=Path, default=_RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-spark.json")
    options = parser.parse_args(arguments)
    size = replace(QUICK if options.quick else FULL, reference=not options.alone)
    options.size = replace(size, rounds=options.rounds) if options.rounds else size
    return options


def _run(parts: Sequence[str], size: Size) -> list[Section]:
    sections: list[Section] = []
    with TemporaryDirectory(prefix="bench-spark-") as folder, open_scene(Path(folder), size) as scene:
        for part in parts:
            print(f"{part} …", file=sys.stderr)
            measured = PARTS[part](scene)
            disconnect()  # the servers are gone
            print(format_sections(measured), flush=True)
            sections += measured
    return sections


def write_json(sections: Sequence[Section], size: Size, path: Path) -> None:
    """Write every sample beside the tables made from them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "size": asdict(size), "sections": [asdict(section) for section in sections]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
