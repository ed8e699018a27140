"""When jobs take their next batch."""

from typing import Any

import pytest

from everbrook.spark.jobs.model import format_trigger, parse_trigger


@pytest.mark.parametrize(
    "text, of_spark",
    [
        ("continuous", {"processingTime": "0 milliseconds"}),
        ("available-now", {"availableNow": True}),
        ("every 5s", {"processingTime": "5000 milliseconds"}),
        ("every 250ms", {"processingTime": "250 milliseconds"}),
        ("every 2h", {"processingTime": "7200000 milliseconds"}),
    ],
)
def test_a_trigger_is_what_spark_makes_of_it_and_is_written_as_it_was_read(text: str, of_spark: dict[str, Any]) -> None:
    assert parse_trigger(text).of_spark == of_spark
    assert format_trigger(parse_trigger(text)) == text


@pytest.mark.parametrize("text", ["", "now", "every", "every 0s", "5s", "every 5 days", "every 99999999999999999h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="or a pause such as"):
        parse_trigger(text)
