"""`python -m soak [flips|kill|chaos|load|spark|… …]`: run those, or all of them (`--help` lists them)."""

import argparse
import importlib.util
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from soak.backup import soak_backup
from soak.chaos import soak_chaos
from soak.client import Refused, Unanswered
from soak.exceptions.injecting import UNGUARDED
from soak.exceptions.running import soak_exceptions
from soak.faults import can_mount, can_trace, fail_sync, fill_disk
from soak.flips.damage import KINDS as FILE_KINDS
from soak.flips.soak import soak_flips
from soak.freeze.attacks import ATTACKS
from soak.freeze.soak import ATTACK_SECS, soak_freeze
from soak.kill import soak_kills
from soak.ledger import PromiseBroken
from soak.load.options import LoadOptions
from soak.load.running import CONTROLS as LOAD_CONTROLS, soak_load
from soak.progress import say
from soak.recreate.streams import FORGETFUL
from soak.resuming.killing import CARELESS, KINDS as SOURCES, soak_resuming
from soak.scale import measure_scale
from soak.server import ServerFailed
from soak.spark.killing import soak_spark
from soak.subscriptions.killing import soak_subscriptions
from soak.sync.controls import ALL, CONTROLS
from soak.turns import measure_turns

MODES = ("acid", "file-durable", "file-fast")
SYNCING = ("acid", "file-durable")
KILLS, KILL_SECS = 50, 600.0
SUBSCRIPTION_SECS = 1_800.0
CHAOS_SECS, CHAOS_KILLS = 60.0, 3
SPARK_KILLS, SPARK_SECS = 10, 1_800.0
SYNC_SECS = 180.0
RESUMED_RUNS = 200
SYNC_FAILURES = 5
CRASH_POINTS = 10_000
FLIP_CASES = 3_000
TURN_STREAMS = 100_000
BACKUP_STREAMS, BACKUP_MEGABYTES = 10_000, 1_000
# Beside the code and not in the system's folder for temporary files, which may be memory: a sync has to meet a disk.
DATA = Path(__file__).resolve().parents[1] / "data"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 1 if a promise was broken."""
    options = _parse(arguments)
    begin = time.monotonic()
    DATA.mkdir(exist_ok=True)
    say(f"seed {options.seed}; modes {', '.join(options.modes)}")
    try:
        for part in options.parts or PARTS:
            PARTS[part](options)
    except (PromiseBroken, Refused, Unanswered, ServerFailed) as error:
        print(f"the soak failed with --seed {options.seed}: {error}", file=sys.stderr)  # noqa: T201 - for a person
        return 1
    say(f"everything held, after {time.monotonic() - begin:.0f} s")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description="Without a part, all of them run.")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--modes", type=_names, default=MODES, help="comma-separated")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument(
        "--kills",
        type=int,
        help=f"kills of each mode (default {KILLS}) or of each query of Spark ({SPARK_KILLS}), runs of programs that "
        f"resume ({RESUMED_RUNS})",
    )
    parser.add_argument("--queries", type=_names, default=(), help="of Spark, comma-separated")
    parser.add_argument(
        "--seconds",
        type=float,
        help=f"how long tables and streams are under fire ({SYNC_SECS:g}), a server under load (600), or files damaged",
    )
    parser.add_argument("--readers", type=int, default=5_000, help="of the load (default 5000)")
    parser.add_argument("--producers", type=int, default=200, help="of the load (default 200)")
    parser.add_argument("--restarts", type=int, default=6, help="of the server under load (default 6)")
    parser.add_argument(
        "--control",
        choices=[ALL, *(control.flaw for control in CONTROLS), *LOAD_CONTROLS, UNGUARDED, CARELESS, FORGETFUL],
        help=f"of tables and streams, of the load ({', '.join(LOAD_CONTROLS)}), of exceptions ({UNGUARDED}), of "
        f"programs that are started again ({CARELESS}) or of streams that are ({FORGETFUL}), nothing else: it has to "
        "fail",
    )
    parser.add_argument("--cases", type=int, default=FLIP_CASES, help=f"damaged stores of each mode ({FLIP_CASES})")
    parser.add_argument("--case", type=int, help="the one damaged store of this number")
    parser.add_argument("--files", type=_names, default=(), help=f"to damage: {', '.join(FILE_KINDS)}")
    parser.add_argument("--attacks", type=_names, default=(), help=f"of a freeze: {', '.join(ATTACKS)}")
    parser.add_argument("--points", type=int, default=CRASH_POINTS, help=f"crash points (default {CRASH_POINTS})")
    parser.add_argument("--streams", type=int, default=1_000_000, help="streams of the large store (default 1000000)")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PARTS)}")
    return options


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _flips(options: argparse.Namespace) -> None:
    soak_flips(
        options.seed,
        options.modes,
        cases=options.cases,
        secs=options.seconds,
        case=options.case,
        kinds=options.files,
    )


def _freeze(options: argparse.Namespace) -> None:
    failures: list[str] = []
    for mode in ("memory", *options.modes):
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            try:
                soak_freeze(mode, Path(folder), only=options.attacks, secs=options.seconds or ATTACK_SECS)
            except PromiseBroken as error:
                failures.append(str(error))
    if failures:
        raise PromiseBroken("\n".join(failures))


def _kill(options: argparse.Namespace) -> None:
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            survived = soak_kills(
                mode, Path(folder), kills=options.kills or KILLS, seed=options.seed, max_secs=KILL_SECS
            )
        say(
            f"{mode}: {survived.kills} kills survived, {survived.messages:,} messages exactly once, "
            f"slowest start {survived.slowest_start_secs:.2f} s"
        )


def _subscriptions(options: argparse.Namespace) -> None:
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            outlived = soak_subscriptions(
                mode, Path(folder), kills=options.kills or KILLS, seed=options.seed, max_secs=SUBSCRIPTION_SECS
            )
        say(f"{mode}: {outlived}")


def _chaos(options: argparse.Namespace) -> None:
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            outlasted = soak_chaos(mode, Path(folder), secs=CHAOS_SECS, seed=options.seed, kills=CHAOS_KILLS)
        say(f"{mode}: {outlasted}")


def _load(options: argparse.Namespace) -> None:
    """Put a server under load; with a control, see that what is wrong is noticed."""
    chosen = LoadOptions(
        secs=options.seconds or LoadOptions().secs,
        readers=options.readers,
        producers=options.producers,
        restarts=options.restarts,
        control=options.control,
    )
    with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
        try:
            say(f"load: {soak_load(Path(folder), chosen, options.seed)}")
        except PromiseBroken as error:
            if options.control is None:
                raise
            say(f"load: the control {options.control} was noticed, as it has to be: {error}")
            return
    if options.control is not None:
        raise PromiseBroken(f"the control {options.control} was not noticed")


def _exceptions(options: argparse.Namespace) -> None:
    """Raise in callbacks of a server; as a control without guards, and see that this is noticed."""
    control = options.control == UNGUARDED
    for mode in options.modes[:1] if control else options.modes:
        for encrypted in (False,) if control else (False, True):
            with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
                try:
                    contained = soak_exceptions(
                        mode, Path(folder), seed=options.seed, encrypted=encrypted, control=control
                    )
                except PromiseBroken as error:
                    if not control:
                        raise
                    say(f"exceptions: the control {UNGUARDED} was noticed, as it has to be: {error}")
                    return
            say(f"{mode}{', encrypted' if encrypted else ''}: {contained}")
    if control:
        raise PromiseBroken(f"the control {UNGUARDED} was not noticed")


def _resuming(options: argparse.Namespace) -> None:
    """Kill programs that copy a source; with the control, one that is wrong, and see that this is noticed."""
    control = options.control == CARELESS
    for mode in options.modes[:1] if control else options.modes:
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            runs, kinds = options.kills or RESUMED_RUNS, (CARELESS,) if control else SOURCES
            try:
                say(f"{mode}: {soak_resuming(mode, Path(folder), runs=runs, seed=options.seed, kinds=kinds)}")
            except PromiseBroken as error:
                if not control:
                    raise
                say(f"resuming: the control {CARELESS} was noticed, as it has to be: {error}")
                return
    if control:
        raise PromiseBroken(f"the control {CARELESS} was not noticed")


def _spark(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("pyspark") is None:
        say("no query was run: Spark is missing (the extra spark)")
        return
    with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
        soak_spark(
            Path(folder),
            kills=options.kills or SPARK_KILLS,
            seed=options.seed,
            max_secs=SPARK_SECS,
            only=options.queries,
        )


def _lake(options: argparse.Namespace) -> None:
    missing = [name for name in ("pyspark", "deltalake") if importlib.util.find_spec(name) is None]
    if missing:
        say(f"no table of the lake was written: {', '.join(missing)} is missing (the extra lake)")
        return
    from soak.lake.killing import soak_lake  # noqa: PLC0415 - with deltalake

    with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
        soak_lake(Path(folder), kills=options.kills or SPARK_KILLS, seed=options.seed, max_secs=SPARK_SECS)


def _recreate(options: argparse.Namespace) -> None:
    """Create streams anew under jobs. The control, whose jobs can't tell incarnations apart, has to fail."""
    missing = [name for name in ("pyspark", "deltalake", "psycopg") if importlib.util.find_spec(name) is None]
    if missing:
        say(f"no stream was created anew under jobs: {', '.join(missing)} is missing (the extras lake and stack)")
        return
    from soak.recreate.killing import soak_recreate  # noqa: PLC0415 - with deltalake and psycopg

    control = options.control == FORGETFUL
    with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
        try:
            kills = options.kills or SPARK_KILLS
            say(f"recreate: {soak_recreate(Path(folder), kills=kills, seed=options.seed, flaw=control)}")
        except PromiseBroken as error:
            if not control:
                raise
            say(f"recreate: the control {FORGETFUL} was noticed, as it has to be: {error}")
            return
    if control:
        raise PromiseBroken(f"the control {FORGETFUL} was not noticed")


def _sync(options: argparse.Namespace) -> None:
    missing = [name for name in ("pyspark", "psycopg") if importlib.util.find_spec(name) is None]
    if missing:
        say(f"tables and streams were not kept in step: {', '.join(missing)} is missing (the extra stack)")
        return
    from soak.sync.killing import soak_sync  # noqa: PLC0415 - with psycopg

    with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
        soak_sync(Path(folder), secs=options.seconds or SYNC_SECS, seed=options.seed, only=options.control)


def _faults(options: argparse.Namespace) -> None:
    random = Random(options.seed)  # noqa: S311 - it must replay
    traced, mounted = can_trace(), can_mount()
    for mode in options.modes:
        for _ in range(SYNC_FAILURES if traced and mode in SYNCING else 0):
            with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
                fail_sync(mode, Path(folder), random.randrange(30, 300))
        if mounted:
            fill_disk(mode)
    if not traced:
        say("syncs were not made to fail: strace is missing or not allowed here; tests/crash does it in-process")
    if not mounted:
        say("no disk was filled: mounting is not allowed here; tests/crash does it in-process")


def _crash(options: argparse.Namespace) -> None:
    """Replay crashes of the recorded disk, many more than the tests do."""
    if importlib.util.find_spec("tests.crash.__main__") is None:
        say("there is no crash replay to run")
        return
    command = [sys.executable, "-m", "tests.crash", "--points", str(options.points), "--seed", str(options.seed)]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own module
        raise PromiseBroken(f"the crash replay failed: {' '.join(command[1:])}")


def _scale(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
        measure_scale(Path(folder), streams=options.streams, seed=options.seed)


def _backup(options: argparse.Namespace) -> None:
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            soak_backup(mode, Path(folder), streams=BACKUP_STREAMS, megabytes=BACKUP_MEGABYTES)


def _turns(options: argparse.Namespace) -> None:
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="soak-", dir=DATA) as folder:
            measure_turns(mode, Path(folder), streams=min(options.streams, TURN_STREAMS))


PARTS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "flips": _flips,
    "freeze": _freeze,
    "kill": _kill,
    "subscriptions": _subscriptions,
    "chaos": _chaos,
    "load": _load,
    "exceptions": _exceptions,
    "resuming": _resuming,
    "spark": _spark,
    "lake": _lake,
    "recreate": _recreate,
    "sync": _sync,
    "faults": _faults,
    "crash": _crash,
    "scale": _scale,
    "backup": _backup,
    "turns": _turns,
}

if __name__ == "__main__":
    sys.exit(main())
