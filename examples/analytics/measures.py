"""Measures from facts: a row for each minute, and a row for each day's funnel, as changes of the State protocol. A row
is written again whenever it changes, under the same key.

Spark keeps the rows that may still change: a minute until facts are `LATE` beyond it, a day until the next day is over.
Later facts are not counted.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import (
    approx_count_distinct,
    col,
    count_if,
    date_format,
    explode,
    lit,
    percentile_approx,
    struct,
    to_json,
    window,
)

from examples.analytics.visits import STEPS

LATE = "1 hour"
_DISTINCT_ERROR = 0.02
_TOLD = {"ignoreNullFields": "false"}


def minutes_of(facts: DataFrame) -> DataFrame:
    """Count messages, users and response times of each minute."""
    waited = percentile_approx("response_ms", [0.5, 0.95])
    counted = (
        facts.where("kind != 'closed'")
        .withWatermark("at", LATE)
        .groupBy(window("at", "1 minute"))
        .agg(
            count_if(col("kind").isin("question", "answer")).alias("messages"),
            count_if(col("kind") == "question").alias("questions"),
            count_if(col("kind") == "answer").alias("answers"),
            approx_count_distinct("user", _DISTINCT_ERROR).alias("active_users"),
            waited[0].alias("response_p50_ms"),
            waited[1].alias("response_p95_ms"),
        )
    )
    return _upserts(counted, "minute", "yyyy-MM-dd'T'HH:mm'Z'")


def funnel_of(facts: DataFrame) -> DataFrame:
    """Count the steps that the visits of a day have reached."""
    counted = (
        facts.select("began", explode("steps").alias("step"))
        .withWatermark("began", "1 day")
        .groupBy(window("began", "1 day"))
        .agg(*(count_if(col("step") == step).alias(step) for step in STEPS))
    )
    return _upserts(counted, "funnel", "yyyy-MM-dd")


def _upserts(counted: DataFrame, type_: str, key: str) -> DataFrame:
    """Convert rows to changes. Times are written in the zone of the session, which must be UTC."""
    fields = [name for name in counted.columns if name != "window"]
    change: list[Column] = [
        lit(type_).alias("type"),
        date_format("window.start", key).alias("key"),
        struct(*fields).alias("value"),
        struct(lit("upsert").alias("operation")).alias("headers"),
    ]
    return counted.select(to_json(struct(*change), _TOLD).alias("value"))
