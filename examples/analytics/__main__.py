"""Count what happens in the streams `sessions/*`, and keep the stream `session-analytics` current.

python -m examples.analytics          # until Ctrl-C; started again, it continues
python -m examples.analytics --once   # count the stored messages, then end
"""

import argparse
import signal
import sys
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from everbrook.spark import session
from examples.analytics.job import SETTINGS, Analytics, CheckpointMissing, Places

ROOT = Path(__file__).parents[2]
QUIET = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "1g"}
WORKERS = {"spark.executorEnv.PYTHONPATH": str(ROOT)}  # where tasks find this example
LOOK_SECS = 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.analytics", description=__doc__.partition("\n")[0])
    parser.add_argument("--once", action="store_true", help="end when all stored messages are counted")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints/analytics"))
    parser.add_argument("--master", default="local[2]")
    chosen = parser.parse_args()
    spark = session("analytics", master=chosen.master, config=QUIET | WORKERS | SETTINGS)
    try:
        analytics = Analytics(spark, Places(chosen.checkpoints.resolve()))
        analytics.run_once() if chosen.once else run(spark, analytics)
    except CheckpointMissing as missing:
        sys.exit(f"analytics: {missing}")
    finally:
        spark.stop()


def run(spark: SparkSession, analytics: Analytics) -> None:
    """Count until a signal, or until a query fails, whose error is raised."""
    stopping = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, lambda *_: stopping.set()
        )  # an exception in the middle of a call to Java would end the JVM
    queries = analytics.start()
    while not (stopping.is_set() or spark.streams.awaitAnyTermination(LOOK_SECS)):
        pass
    for query in queries:
        query.stop()


if __name__ == "__main__":
    main()
