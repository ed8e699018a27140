"""A program that folds for ever, to be killed: `fold_driver.py URL PREFIX CHECKPOINT`."""

import sys

from everbrook.spark import fold_streams, session


def main(url: str, prefix: str, checkpoint: str) -> None:
    """Fold, and say so once that has begun."""
    config = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    spark = session("folds", master="local[2]", config=config)
    query = fold_streams(
        spark, checkpoint, url=url, streamPrefix=f"{prefix}in/", history="drop", reports=f"{prefix}reports"
    )
    print("begun", flush=True)  # noqa: T201 - read by whoever started this
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
